"""Multipliers of the margin problem from all gradients as one dense matrix: for small networks, and as an oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import vmap

from undertow.core.called_with import called_with
from undertow.core.losses import Loss
from undertow.core.pulled_back import gradients_of

__all__ = ["DenseMultipliers", "dense_multipliers"]


@dataclass(frozen=True, eq=False)
class DenseMultipliers:
    """λ (N,) for θ scaled to norm 1, ‖θ̂ − Σ λ ∇q‖, and the margins q (N,)."""

    value: Tensor
    residual: float
    margins: Tensor


def dense_multipliers(
    net: nn.Module, x: Tensor, labels: Tensor, *, loss: Loss, outputs: int, names: Sequence[str]
) -> DenseMultipliers:
    """λ ≥ 0 for one constraint a point, q = s_y − max_{j≠y} s_j, with slopes at kinks as autograd has them.

    ‖θ̂ − Σ λ ∇q‖² + (Σ λ (q − q_min)/‖θ‖)² is minimised by a QR factorisation of all gradients, points × parameters, and
    Lawson & Hanson's method. ``net`` and ``x`` are in float64, ``labels`` as the loss wants them.
    """
    named = dict(net.named_parameters())
    weights = {name: named[name].detach() for name in names}
    theta = torch.cat([p.flatten() for p in weights.values()])
    size = theta.norm()
    fixed = {name: p.detach() for name, p in named.items()}
    signs = labels if loss in ("logistic", "exponential") else 2 * labels - 1

    def margin(weights: dict[str, Tensor], sample: Tensor, label: Tensor) -> Tensor:
        scores: Tensor = called_with(net, {**fixed, **weights}, sample[None])[0]
        if outputs == 1:
            return scores[0] * label
        own = torch.arange(outputs, device=scores.device) == label
        return (scores * own).sum() - scores.masked_fill(own, -torch.inf).amax()

    target = signs if outputs == 1 else labels
    with torch.no_grad():
        margins = vmap(lambda s, t: margin(weights, s, t))(x, target)
    parts = zip(torch.split(x, 64), torch.split(target, 64), strict=True)
    gradients = torch.cat([_gradients(margin, weights, samples, labels) for samples, labels in parts])
    value, residual = _nonnegative(gradients, theta / size, (margins - margins.min()) / size)
    return DenseMultipliers(value, residual, margins)


def _gradients(
    margin: Callable[[dict[str, Tensor], Tensor, Tensor], Tensor],
    weights: dict[str, Tensor],
    samples: Tensor,
    labels: Tensor,
) -> Tensor:
    """∇q_i of every sample, (N, P), each with its own copy of the weights (``torch.func.grad`` loads a compiler)."""
    copies = {name: p.expand(len(samples), *p.shape).clone().requires_grad_() for name, p in weights.items()}
    with torch.enable_grad():
        margins = vmap(margin)(copies, samples, labels)
        found = gradients_of(margins.sum(), list(copies.values()))
    return torch.cat([each.reshape(len(samples), -1) for each in found], dim=1)


def _nonnegative(gradients: Tensor, theta: Tensor, excess: Tensor) -> tuple[Tensor, float]:
    """argmin over λ ≥ 0 of ‖θ − Gᵀλ‖² + ⟨excess, λ⟩², and the first of both norms there; G is (N, P)."""
    # Columns of Gᵀ = Q R: ‖θ − Gᵀλ‖² = ‖Qᵀθ − Rλ‖² + what of θ is outside the span.
    Q, R = torch.linalg.qr(gradients.T)
    inside = Q.T @ theta
    rows = torch.cat([R, excess[None]]).cpu().numpy()
    goal = torch.cat([inside, inside.new_zeros(1)]).cpu().numpy()
    from scipy.optimize import nnls  # a quarter of a second, for small networks alone

    solved, _ = nnls(rows, goal, maxiter=30 * len(gradients))
    multipliers = torch.from_numpy(solved).to(theta)
    return multipliers, float((theta - multipliers @ gradients).norm())
