"""Products of groups of rows with a matrix for each group, in float64: mixtures of experts have no other precision."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from undertow.core.replaced_functions import ReplacedFunctions

__all__ = ["GroupedProducts"]

_grouped = getattr(torch, "_grouped_mm", None)  # not in older PyTorch


def _in_any_precision(rows: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    assert _grouped is not None  # or nobody had called it
    found: Tensor = (_by_groups if rows.dtype is torch.float64 else _grouped)(rows, *args, **kwargs)
    return found


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


class GroupedProducts(ReplacedFunctions):
    """Within it such products are taken group by group in float64, for which PyTorch's own have no kernel.

    >>> rows, matrices = torch.tensor([[1.0], [2.0], [3.0]]).double(), torch.tensor([[[10.0]], [[20.0]]]).double()
    >>> with GroupedProducts():
    ...     torch.nn.functional.grouped_mm(rows, matrices, offs=torch.tensor([1, 3], dtype=torch.int32)).flatten()
    tensor([10., 40., 60.], dtype=torch.float64)
    """

    INSTEAD: ClassVar = {_grouped: _in_any_precision}
