"""Curvature products of any network, from graphs that are recorded once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from undertow.curvature.kept_gradients import kept_gradients

__all__ = ["Product", "recorded_gauss_newton", "recorded_hessian"]

Product = Callable[[list[Tensor]], list[Tensor]]
"""From a direction (M, …) for each parameter to the image (M, …) in each."""


def recorded_hessian(outputs: Tensor, total: Callable[[Tensor], Tensor], leaves: list[Tensor]) -> Product:
    """H v = ∇⟨∇L, v⟩, one backward pass through the graph of the gradient."""
    slopes = kept_gradients([total(outputs)], leaves, create_graph=True)
    return lambda pieces: kept_gradients(slopes, leaves, pieces)


def recorded_gauss_newton(
    outputs: Tensor, total: Callable[[Tensor], Tensor], leaves: list[Tensor]
) -> Product:
    """G v = Jᵀ ∇²ℓ J v, where J v is the transpose of u ↦ Jᵀu."""
    scores = outputs.detach().requires_grad_()
    (slope,) = kept_gradients([total(scores)], [scores], create_graph=True)
    cotangent = torch.zeros_like(outputs, requires_grad=True)
    pulled = kept_gradients([outputs], leaves, [cotangent], create_graph=True)

    def product(pieces: list[Tensor]) -> list[Tensor]:
        moved = kept_gradients(pulled, [cotangent], pieces)
        bent = kept_gradients([slope], [scores], moved)
        return kept_gradients([outputs], leaves, bent)

    return product
