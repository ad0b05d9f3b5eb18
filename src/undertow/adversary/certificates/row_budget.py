"""How much at a time: entries of one array of rows from the memory that is free, and work that limits are worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

__all__ = ["in_parts", "row_entries", "worthwhile"]

Found = TypeVar("Found")
_ARRAYS = 64  # of the size of one array of rows that an ascent holds at once, at most about
_SMALL = 2**22  # entries, 32 MiB: beyond that a CPU's caches make nothing faster
_WORK = {
    "cpu": 2e9,
    "cuda": 1e12,
}  # multiplications for the limits of one operation and sample: about a second


def row_entries(device: torch.device) -> int:
    """Float64 entries that one array of backward rows may have: all samples, rows and neurons of it together.

    >>> row_entries(torch.device("cpu")) <= 2**22
    True
    """
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        reserved = torch.cuda.memory_reserved(device)
        # a process may have been allowed a share of the memory alone
        share = int(torch.cuda.get_per_process_memory_fraction(device) * total)
        room = min(free, max(0, share - reserved)) + reserved - torch.cuda.memory_allocated(device)
        return max(2**16, room // (8 * _ARRAYS))
    return max(2**16, min(_SMALL, _available() // (8 * _ARRAYS)))


def in_parts(index: Tensor, size: int, work: Callable[[Tensor], Found]) -> list[Found]:
    """``work`` of the entries of an index, so many at a time; half as many once a GPU's memory does not hold them.

    >>> in_parts(torch.arange(5), 2, lambda part: part.tolist())
    [[0, 1], [2, 3], [4]]
    """
    found: list[Found] = []
    first, size = 0, max(1, size)
    while first < len(index):
        part = index[first : first + size]
        try:
            found.append(work(part))
        except torch.OutOfMemoryError:
            if len(part) == 1:
                raise
            size = len(part) // 2
        else:
            first += len(part)
            continue
        torch.cuda.empty_cache()  # outside of the handler, which keeps alive what did not fit
    return found


def worthwhile(device: torch.device) -> float:
    """Multiplications for the limits of one operation and sample beyond which intervals have to do."""
    return _WORK.get(device.type, _WORK["cpu"])


def _available() -> int:
    """Bytes of memory that are free, as Linux counts them; elsewhere enough for the usual size."""
    try:
        with open("/proc/meminfo") as lines:
            available = next(line for line in lines if line.startswith("MemAvailable"))
        return int(available.split()[1]) * 1024
    except (OSError, StopIteration):
        return 8 * _ARRAYS * _SMALL
