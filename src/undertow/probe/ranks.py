"""Which of several processes that train one network together measures what."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from undertow.probe.records import Record

__all__ = ["gathered", "measures_here", "ranks"]


def ranks() -> tuple[int, int]:
    """This process's place among those that train together, and their number: (0, 1) where it trains alone.

    >>> ranks()
    (0, 1)
    """
    together = torch.distributed.is_available() and torch.distributed.is_initialized()
    return (torch.distributed.get_rank(), torch.distributed.get_world_size()) if together else (0, 1)


def measures_here(index: int, *, spread: bool) -> bool:
    """Whether this process takes the measure of that index: rank 0 takes all, or the ranks take them in turn."""
    rank, count = ranks()
    return rank == (index % count if spread else 0)


def gathered(found: Sequence[tuple[int, Record]]) -> list[Record]:
    """The records of all ranks, on every rank, in the order of the measures that they are readings of.

    All ranks have to call this at the same step.
    """
    _, count = ranks()
    parts: list[list[tuple[int, Record]] | None] = [None] * count
    torch.distributed.all_gather_object(parts, list(found))
    every = [each for part in parts if part is not None for each in part]
    return [record for _, record in sorted(every, key=lambda each: each[0])]
