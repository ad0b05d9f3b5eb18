"""The idx format of MNIST: a magic number, the sizes, then the values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from undertow.errors import DataError

__all__ = ["parse_idx"]


def parse_idx(content: bytes, *, name: str = "the file") -> NDArray[np.uint8]:
    """The array of an idx file of unsigned bytes: 0, 0, 8, rank, then one big-endian size per axis.

    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 4, 5, 6]))
    array([4, 5, 6], dtype=uint8)
    """
    if content[:3] != b"\x00\x00\x08" or len(content) < 4 or len(content) < 4 + 4 * content[3]:
        raise DataError(f"{name} is not an idx file of unsigned bytes (it begins with {content[:4]!r}).")
    rank = content[3]
    shape = tuple(int(size) for size in np.frombuffer(content, dtype=">u4", count=rank, offset=4))
    values = np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * rank)
    if values.size != int(np.prod(shape, dtype=np.int64)):
        raise DataError(f"{name} announces shape {shape} but holds {values.size:,} values.")
    return values.reshape(shape)
