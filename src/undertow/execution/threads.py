"""How many threads a group of networks is worth."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

__all__ = ["threads_for"]

_WORTH_SHARING = 5e7


@contextlib.contextmanager
def threads_for(products: float) -> Iterator[int]:
    """Torch's threads while training with so many multiplications a step: one, where sharing costs more.

    Handing a step of 10⁷ multiplications to a second thread takes longer than doing it, and threads that wait
    keep their core busy. One thread also means the same rounding on every machine with the same processor.

    >>> with threads_for(1e6) as threads:
    ...     threads
    1
    """
    before = torch.get_num_threads()
    threads = before if products >= _WORTH_SHARING else 1
    torch.set_num_threads(threads)
    try:
        yield threads
    finally:
        torch.set_num_threads(before)
