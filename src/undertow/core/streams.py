"""Named streams of random numbers from one seed."""

from __future__ import annotations

import hashlib
from typing import Literal

__all__ = ["Stream", "stream"]

Stream = Literal["data", "test", "weights", "order"]


def stream(seed: int, name: Stream) -> int:
    """The seed of one use of a trial's seed.

    Data and weights drawn from generators with the *same* seed are not independent: the first neuron would be
    a multiple of the mixture's mean. Hashing the pair of seed and name gives each its own stream.

    >>> stream(0, "data") != stream(0, "weights"), 0 <= stream(7, "order") < 2**63
    (True, True)
    """
    return int.from_bytes(hashlib.sha256(f"{name}/{seed}".encode()).digest()[:8], "big") >> 1
