"""How many samples fit: chunks from a memory budget, halved when a device runs out all the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from undertow.core.enclosing import rows_of
from undertow.core.errors import InputError
from undertow.jacobian.preconditions import Network

__all__ = [
    "GPU_SHARE",
    "chunk_size",
    "default_budget",
    "filled_up",
    "graph_bytes",
    "in_chunks",
    "within_memory",
]

GPU_SHARE = "UNDERTOW_GPU_SHARE"
"""The variable that tells a process which share of a GPU's memory is its own, as 0.5."""

T = TypeVar("T")


def default_budget(device: torch.device) -> int:
    """Half of the memory that is free on a GPU, a quarter of the computer's, in bytes.

    Of processes that share a GPU each has its share: what is free now is not all for the first to ask.
    """
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        allocated = torch.cuda.memory_allocated(device)
        cached = torch.cuda.memory_reserved(device) - allocated
        return _free_bytes(free + cached, total, allocated, sharing=float(os.environ.get(GPU_SHARE, 1))) // 2
    try:
        with open("/proc/meminfo") as lines:
            available = next(line for line in lines if line.startswith("MemAvailable"))
        return int(available.split()[1]) * 1024 // 4
    except (OSError, StopIteration):
        return 2**30  # not Linux: a gibibyte is safe nearly everywhere


def _free_bytes(free: int, total: int, allocated: int, *, sharing: float) -> int:
    """What is free of a process's share of a GPU; ``free`` counts what the process has and does not use.

    >>> _free_bytes(90, 100, 10, sharing=1.0), _free_bytes(90, 100, 10, sharing=0.25)
    (90, 15)
    >>> _free_bytes(5, 100, 10, sharing=0.25), _free_bytes(90, 100, 30, sharing=0.25)
    (5, 0)
    """
    return max(0, min(free, int(sharing * total) - allocated))


def graph_bytes(f: Network, x: Tensor) -> int:
    """Bytes per sample that autograd keeps for the backward pass of ``f``, measured on a few samples."""
    few, f = x[:2], rows_of(f, slice(0, min(len(x), 2)))
    seen: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.dim() > 0 and tensor.shape[0] == few.shape[0]:
            seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        # Kept alive so that no address is used twice; detached, as an output that holds its own node is never freed.
        return tensor.detach()

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        output = f(few.detach().clone().requires_grad_().clone())
    return (sum(seen.values()) + output.element_size() * output.numel()) // few.shape[0] + 1


def chunk_size(count: int, per_sample: int, budget: int) -> int:
    """Samples per chunk within ``budget`` bytes; a power of two unless all fit, so that it rarely changes.

    >>> chunk_size(10_000, 1000, 10**9), chunk_size(10_000, 10**6, 10**9)
    (10000, 512)
    """
    fitting = max(1, budget // max(1, per_sample))
    return count if fitting >= count else int(2 ** (fitting.bit_length() - 1))


def filled_up(index: Tensor, count: int) -> Tensor:
    """``index`` and then further places below ``count``, as many as make a power of two of them, or ``count``.

    A GPU prepares its convolutions anew for every number of samples that it meets, for tens of milliseconds each: sizes
    should recur.

    >>> filled_up(torch.tensor([6, 4, 7]), 8).tolist(), filled_up(torch.tensor([1, 2, 0]), 3).tolist()
    ([6, 4, 7, 0], [1, 2, 0])
    """
    if len(index) == 0:
        return index
    size = min(count, 1 << (len(index) - 1).bit_length())
    others = torch.ones(count, dtype=torch.bool, device=index.device)
    others[index] = False
    return torch.cat([index, others.nonzero()[:, 0][: size - len(index)]])


def in_chunks(count: int, chunk: int, work: Callable[[slice], T]) -> Iterator[T]:
    """``work`` on slices of at most ``chunk`` samples; out of memory halves the chunk and goes on."""
    begin = 0
    while begin < count:
        try:
            yield work(slice(begin, min(begin + chunk, count)))
            begin += chunk
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            if chunk == 1:
                raise InputError(
                    "out of memory on a single sample: use a smaller network or input, another device, "
                    "or a larger rtol (fewer Krylov vectors)."
                ) from error
            chunk = (chunk + 1) // 2
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


def within_memory(work: Callable[[], T]) -> T | None:
    """What ``work`` gives; None where memory runs out, and what it held of that is free again.

    >>> within_memory(lambda: 1)
    1
    """
    try:
        return work()
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
    return None


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
