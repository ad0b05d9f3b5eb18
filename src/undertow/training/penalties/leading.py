"""Largest singular values of many Jacobians at the price of two products, from vectors that are nearly right."""

from __future__ import annotations

import torch
from torch import Tensor

from undertow.training.penalties.seen import Signs

__all__ = ["leading_squares", "warm_start"]


def leading_squares(
    outputs: Tensor, inputs: Tensor, left: Tensor, *, steps: int = 1
) -> tuple[Tensor, Tensor]:
    """‖Jᵀa‖² of every sample, (M, B), and the next a: J the Jacobian of outputs (M, B, k) in inputs, a of norm 1.

    ‖Jᵀa‖ ≤ ‖J‖₂ with equality at the leading left vector, where by the envelope theorem the gradient with a held fixed
    is that of ‖J‖₂² itself. One step of the power method, a ← J Jᵀa/‖J Jᵀa‖, is one product backward, which
    the value comes from too, and one forward, which is the derivative of the former in a.
    """
    for _ in range(steps):
        left = left.detach().requires_grad_()
        (pulled,) = torch.autograd.grad(outputs, inputs, left, create_graph=True)
        pulled = pulled.flatten(2)
        (pushed,) = torch.autograd.grad(pulled, left, _unit(pulled.detach()), retain_graph=True)
        value, left = pulled.square().sum(2), _unit(pushed)
    return value, left.detach()


def warm_start(remembered: Tensor | None, like: Tensor, signs: Signs, draw: int) -> Tensor:
    """Vectors of norm 1 in the shape of ``like`` (M, B, k): those remembered, random ones where there are none."""
    fresh = _unit(signs(like.detach(), draw))
    if remembered is None:
        return fresh
    return torch.where((remembered != 0).any(2, keepdim=True), remembered, fresh)


def _unit(vectors: Tensor) -> Tensor:
    """Divided by their norms, first by their largest entries, so that no square underflows; 0 stays 0."""
    largest = vectors.abs().amax(2, keepdim=True)
    scaled = vectors / largest.where(largest > 0, 1.0)
    norms = torch.linalg.vector_norm(scaled, dim=2, keepdim=True)
    return torch.div(scaled, norms.where(norms > 0, 1.0))
