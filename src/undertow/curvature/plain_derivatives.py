"""Operations whose second derivatives PyTorch has wrong, from ordinary ones."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from undertow.core.replaced_functions import ReplacedFunctions

__all__ = ["PlainDerivatives"]

_LEAST = math.exp(-100)  # PyTorch's binary cross-entropy knows no logarithm below −100


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    # torch.norm_except_dim would do, but for negative axes, which mean "of everything" there.
    axes = [axis for axis in range(v.dim()) if dim == -1 or axis != dim % v.dim()]
    found: Tensor = v * (g / torch.linalg.vector_norm(v, dim=axes, keepdim=True))
    return found


def _binary_cross_entropy(
    p: Tensor,
    labels: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    losses = -labels * p.clamp(min=_LEAST).log() - (1 - labels) * (1 - p).clamp(min=_LEAST).log()
    losses = losses if weight is None else losses * weight
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    return losses.sum() if reduction == "sum" else losses.mean() if reduction == "mean" else losses


class PlainDerivatives(ReplacedFunctions):
    """Within it two fused operations are computed by ordinary ones, each of which can be differentiated twice.

    The kernel of w = g v/‖v‖ behind ``torch.nn.utils.parametrizations.weight_norm``, and behind the older hook, has a
    first derivative that is right and a second one that is not: in PyTorch 2 the Hessian it leads to is not symmetric,
    by 10 to 20 % of its length on the processor. That of ``binary_cross_entropy`` of a probability p adds 10⁻¹⁰ to
    p (1 − p) before it divides by that, which are all of its digits where p is as near to 0 or 1.

    >>> v, g = torch.tensor([[3.0, 4.0]]), torch.tensor([[10.0]])
    >>> with PlainDerivatives():
    ...     torch._weight_norm(v, g, 0)
    tensor([[6., 8.]])
    """

    INSTEAD: ClassVar = {
        torch._weight_norm: _weight_norm,
        functional.binary_cross_entropy: _binary_cross_entropy,
    }
