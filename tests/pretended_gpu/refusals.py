"""What a GPU refuses: tensors of two devices in one operation, and in a graph whatever waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["HostAskedError", "MixedDevicesError", "NotOnAGpuError", "asks_the_host", "cannot_be", "mixes"]


class MixedDevicesError(RuntimeError):
    """Tensors of two devices met in one operation."""


class NotOnAGpuError(RuntimeError):
    """An operation that PyTorch has for a CPU alone."""


class HostAskedError(RuntimeError):
    """Something that a graph cannot hold, while one was being captured."""


_HOST_READS = {
    "_local_scalar_dense", "nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive",
    "equal", "is_nonzero", "bincount", "histc", "multinomial", "repeat_interleave", "_linalg_check_errors",
    "_linalg_eigh", "_linalg_svd", "linalg_lstsq", "linalg_eig", "linalg_eigvals",
}  # fmt: skip
"""Which wait for the GPU; of the linear algebra, because solvers report errors or count iterations on the host."""
_INDEXING = {"index", "index_put", "index_put_", "_unsafe_index", "_unsafe_index_put", "_index_put_impl_"}
_COPIES = {"copy_", "_to_copy", "copy"}
_QUESTIONS = {"_has_compatible_shallow_copy_type"}
_TAKE_NUMBERS = {*_INDEXING, "fill_", "where", "masked_fill", "masked_fill_"}
"""To which a single number on the CPU is as good as one of Python's, beside operations that go entry by entry."""
_PRODUCTS = {
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "baddbmm_",
    "addmm_",
    "mv",
    "addmv",
    "dot",
    "vdot",
    "convolution",
}
_NOWHERE = {"histogram", "_histogramdd_from_bin_cts"}


def mixes(func: Any, name: str, args: Sequence[Any], apart: list[Tensor]) -> bool:
    """Whether PyTorch refuses these tensors of the CPU, ``apart``, beside others of the GPU."""
    if name in _COPIES or name in _QUESTIONS:
        return False
    first_apart = any(args[0] is each for each in apart) if args else False
    if name in _INDEXING and not first_apart:  # places of the CPU are moved
        apart = [each for each in apart if not any(each is index for index in args[1])]
    numbers = torch.Tag.pointwise in func.tags or name in _TAKE_NUMBERS or name.startswith("_foreach")
    target = func._schema.is_mutable and first_apart
    return bool(apart) and (target or not numbers or any(each.dim() > 0 for each in apart))


def cannot_be(name: str, given: Sequence[Tensor]) -> bool:
    """Whether a GPU has no kernel for it, such as for products of whole numbers."""
    whole = any(not each.is_floating_point() and not each.is_complex() for each in given)
    return name in _NOWHERE or (name in _PRODUCTS and whole)


def asks_the_host(name: str, args: Sequence[Any], apart: list[Tensor], *, to_cpu: bool) -> bool:
    """Whether it waits for the device, or copies between it and memory of the CPU that is not pinned."""
    if name in _HOST_READS or (name in _COPIES and (bool(apart) or to_cpu)):
        return True
    if name not in _INDEXING:
        return False
    indices = [each for each in args[1] if each is not None]
    masks = any(each.dtype in (torch.bool, torch.uint8) for each in indices)  # their entries are counted
    fills = "put" in name and args[2].numel() == 1 and not (len(args) > 3 and args[3])  # as masked_fill does
    return (masks and not fills) or any(each is other for each in apart for other in indices)
