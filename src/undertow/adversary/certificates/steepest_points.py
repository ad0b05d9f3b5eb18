"""Points of a ball where a network is steep: gradients that are attained, from below the local Lipschitz constant."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from undertow.adversary.geometry import clip, dual_lengths, furthest, project, unit

__all__ = ["jacobian_norms_of", "steepest_found"]

Box = tuple[float, float] | None
Function = Callable[[Tensor], Tensor]
"""Flat points (P, d) → values (P, k)."""


def steepest_found(
    function: Function,
    x: Tensor,
    radius: Tensor,
    norm: float,
    *,
    rows: bool,
    box: Box = None,
    starts: int = 4,
    steps: int = 12,
    seed: int = 0,
) -> Tensor:
    """The largest norms of the Jacobian met within the ball: (N,), or (N, k) of every row apart (``rows``).

    A network is steep where it is steep along some direction v, so a step goes as far as the ball allows to the side of v
    on which ‖J‖ is larger, v the direction that J stretches most at the point before; where that ends, along the gradient
    of ‖J‖, which piecewise-linear networks do not have. No point is a sample itself: there activations may be at their
    kinks, where autograd names a slope that no neighbour has.

    >>> square = lambda x: (x**2).sum(1, keepdim=True) / 2            # ‖∇‖ = ‖x‖, so 1 + 0.5 at most
    >>> x, radius = torch.tensor([[1.0, 0.0]]).double(), torch.tensor([0.5]).double()
    >>> round(float(steepest_found(square, x, radius, 2.0, rows=False)), 3)
    1.5
    """
    generator = torch.Generator().manual_seed(seed)
    reach = radius * (1 - 1e-9)
    best: Tensor | None = None

    def look(at: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal best
        value, along = jacobian_norms_of(function, at, norm, rows=rows)
        best = value if best is None else torch.maximum(best, value)
        return value, along

    for start in range(starts):
        noise = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
        share = 1e-3 if start == 0 else 1.0
        at = project(x + share * reach.unsqueeze(1) * unit(noise), x, reach, norm, box)
        _, along = look(at)
        for step in range(steps if bool((radius > 0).any()) else 0):
            length = reach.unsqueeze(1) * (1.0 if step < 4 else 0.5 ** (step - 3))
            base = x if step < 4 else at
            jitter = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
            jitter = 1e-6 * reach.unsqueeze(1) * unit(jitter)
            sides = [project(base + sign * length * along + jitter, x, reach, norm, box) for sign in (1, -1)]
            (first, along_first), (second, along_second) = look(sides[0]), look(sides[1])
            ahead = (first.flatten(1) if rows else first.unsqueeze(1)).amax(1) >= (
                second.flatten(1) if rows else second.unsqueeze(1)
            ).amax(1)
            at = torch.where(ahead.unsqueeze(1), sides[0], sides[1])
            along = torch.where(ahead.unsqueeze(1), along_first, along_second)
    assert best is not None
    return best


def jacobian_norms_of(function: Function, at: Tensor, norm: float, *, rows: bool) -> tuple[Tensor, Tensor]:
    """Norms of the Jacobian at flat points (P, d), and the directions (P, d) of unit norm that it stretches most."""
    with torch.enable_grad():
        point = at.detach().requires_grad_(True)
        values = function(point)
        parts = [
            torch.autograd.grad(values[:, k].sum(), point, retain_graph=True, materialize_grads=True)[0]
            for k in range(values.shape[1])
        ]
    jacobian = torch.stack(parts, 1).detach().double()
    lengths = dual_lengths(jacobian, norm)
    steepest_row = jacobian[torch.arange(len(at), device=at.device), lengths.argmax(1)]
    if rows:
        return lengths, furthest(steepest_row, norm)
    if norm == 2:
        _, values_found, right = torch.linalg.svd(jacobian, full_matrices=False)
        return values_found[:, 0], right[:, 0].to(at)
    if norm == math.inf:
        return jacobian.abs().sum(2).amax(1), furthest(steepest_row, norm)
    columns = jacobian.abs().sum(1)
    along = torch.nn.functional.one_hot(columns.argmax(1), at.shape[1]).to(at)
    return columns.amax(1), clip(along, None)
