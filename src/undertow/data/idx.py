"""The idx format of MNIST: a magic number, the sizes, then the values."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from undertow.core.errors import DataError

__all__ = ["parse_idx"]

_MOST_AXES = 8


def parse_idx(content: bytes, *, name: str = "the file") -> NDArray[np.uint8]:
    """The array of an idx file of unsigned bytes: 0, 0, 8, rank, then one big-endian size per axis.

    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 4, 5, 6]))
    array([4, 5, 6], dtype=uint8)
    """
    if content[:3] != b"\x00\x00\x08" or len(content) < 4 or len(content) < 4 + 4 * content[3]:
        raise DataError(f"{name} is not an idx file of unsigned bytes (it begins with {content[:4]!r}).")
    rank = content[3]
    # Plain integers: a product of 32-bit sizes can overflow 64 bits, to any number that one wishes.
    shape = tuple(int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(rank))
    count = len(content) - 4 - 4 * rank
    if count != math.prod(shape) or rank > _MOST_AXES or not count:
        shown = f"{shape[:4]}{' …' * (rank > 4)}"
        raise DataError(f"{name} announces shape {shown} but holds {count:,} values.")
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * rank).reshape(shape)
