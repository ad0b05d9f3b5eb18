"""Layer norm with derivatives in its input and nothing else.

y = s x̂ + t with x̂ of mean 0 and variance 1 over the last axes. The derivative S of x̂ is symmetric: Jᵀv = S (s v) and
J u = s (S u) take one call each. Autograd's rule for J u, the derivative of its rule for Jᵀv, has a dozen terms and
took a quarter of a product with a vision transformer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

__all__ = ["layer_norm"]


def layer_norm(
    input: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """What ``torch.nn.functional.layer_norm`` gives.

    >>> x = torch.tensor([[1.0, 3.0]], requires_grad=True)
    >>> value = layer_norm(x, [2], None, None, 0.0)
    >>> value.tolist(), type(value.grad_fn).__name__
    ([[-1.0, 1.0]], '_NormalisedBackward')
    """
    found: Tensor = _Normalised.apply(input, shape, weight, bias, eps)  # type: ignore[no-untyped-call]
    return found


class _Normalised(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, input: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> Tensor:
        value, mean, scale = torch.native_layer_norm(input, shape, weight, bias, eps)
        # Saved, so that autograd notices where the network works in place on it afterwards.
        ctx.save_for_backward(input, mean, scale)
        ctx.shape, ctx.weight = shape, None if weight is None else weight.detach()
        return value

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        input, mean, scale = ctx.saved_tensors
        layer = partial(_slope, input=input.detach(), shape=ctx.shape, mean=mean, scale=scale)
        pulled: Tensor = _PulledBack.apply(cotangent, layer, ctx.weight)  # type: ignore[no-untyped-call]
        return pulled, None, None, None, None


class _PulledBack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cotangent: Tensor, layer: Callable[..., Tensor], weight: Tensor | None) -> Tensor:
        ctx.layer, ctx.weight = layer, weight
        return layer(cotangent, weight=weight)

    @staticmethod
    def backward(ctx: Any, tangent: Tensor) -> tuple[Tensor, None, None]:
        image = ctx.layer(tangent, weight=None)
        return image if ctx.weight is None else image * ctx.weight, None, None


def _slope(
    vector: Tensor, *, weight: Tensor | None, input: Tensor, shape: list[int], mean: Tensor, scale: Tensor
) -> Tensor:
    """(∂x̂/∂x)ᵀ of the vector, times the weight."""
    found: Tensor = torch.ops.aten.native_layer_norm_backward(
        vector.contiguous(), input, shape, mean, scale, weight, None, [True, False, False]
    )[0]
    return found
