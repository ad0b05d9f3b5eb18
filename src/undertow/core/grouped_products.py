"""Products of groups of rows with a matrix for each group, in float64: mixtures of experts have no other precision."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

__all__ = ["GroupedProducts", "copy_in", "copy_of"]

_grouped = getattr(torch, "_grouped_mm", None)  # not in older PyTorch
_M = TypeVar("_M", bound=nn.Module)


class GroupedProducts(TorchFunctionMode):
    """Within it such products are taken group by group in float64, for which PyTorch's own have no kernel.

    >>> rows, matrices = torch.tensor([[1.0], [2.0], [3.0]]).double(), torch.tensor([[[10.0]], [[20.0]]]).double()
    >>> with GroupedProducts():
    ...     torch.nn.functional.grouped_mm(rows, matrices, offs=torch.tensor([1, 3], dtype=torch.int32)).flatten()
    tensor([10., 40., 60.], dtype=torch.float64)
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is _grouped and args[0].dtype is torch.float64:
            return _by_groups(*args, **kwargs)
        return func(*args, **kwargs)


def copy_in(net: _M, dtype: torch.dtype) -> _M:
    """A copy of the network in a precision; modules with a matrix for each of several experts run within that mode.

    >>> net = nn.Linear(1, 1)
    >>> copy_in(net, torch.float64).weight.dtype, net.weight.dtype
    (torch.float64, torch.float32)
    """
    with torch.inference_mode(False):  # of a copy made within it no derivative could be taken
        copied = copy_of(net).to(dtype)
    for module in copied.modules():
        stacked = any(each.dim() == 3 for each in module.parameters(recurse=False))
        if (
            stacked
            and not isinstance(module, nn.modules.conv._ConvNd)
            and not isinstance(module.forward, _Within)
        ):
            module.forward = _Within(module.forward)
    return copied


def copy_of(net: _M) -> _M:
    """A deep copy, also of a network that keeps what it has computed of its weights: pruned, or normalised by hooks.

    Such a layer makes its weight anew in every forward pass and leaves the last one lying, with a graph, which PyTorch
    does not copy.

    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(2, 1), "weight", 1)
    >>> _ = layer(torch.ones(1, 2))
    >>> bool((copy_of(layer).weight == layer.weight).all())
    True
    """
    computed = {
        id(value): value.detach().clone()
        for module in net.modules()
        for value in vars(module).values()
        if isinstance(value, Tensor) and not value.is_leaf
    }
    return copy.deepcopy(net, dict(computed))


class _Within:
    """A module's forward within the mode; a copy of the module has one of its own."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.forward = forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with GroupedProducts():
            return self.forward(*args, **kwargs)


def _by_groups(
    rows: Tensor,
    matrices: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Group g of the rows (S, m), which ends before ``offs[g]``, times matrix g of (G, m, n): (S, n)."""
    if offs is None or rows.dim() != 2 or matrices.dim() != 3 or bias is not None or out_dtype is not None:
        raise NotImplementedError("products of groups in float64 are of rows (S, m) with matrices (G, m, n).")
    if torch._C._functorch.is_batchedtensor(offs):  # by vmap, under which no number may be asked for
        group = (torch.arange(len(rows), device=rows.device)[:, None] >= offs).sum(1, keepdim=True)
        chosen = group == torch.arange(len(matrices), device=rows.device)
        return torch.einsum("sm,gmn,sg->sn", rows, matrices, chosen.to(rows.dtype))
    ends = offs.tolist()
    parts = [rows[begin:end] @ each for begin, end, each in zip([0, *ends], ends, matrices, strict=False)]
    return torch.cat([*parts, rows.new_zeros(len(rows) - ends[-1], matrices.shape[2])])  # rows of no group
