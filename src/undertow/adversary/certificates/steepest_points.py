"""Points of a ball where a network is steep: gradients that are attained, from below the local Lipschitz constant."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from undertow.adversary.geometry import dual_lengths, furthest, project, unit
from undertow.core.plain_attention import plain_attention

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
    steps: int = 9,
    seed: int = 0,
) -> Tensor:
    """The largest norms of the Jacobian met within the ball: (N,), or (N, k) of every row apart (``rows``).

    A network is steep where it is steep along some direction v, so first steps go as far as the ball allows to the side
    of v on which ‖J‖ is larger, v the direction that J stretches most at the point before; later and shorter ones along
    the gradient of ‖J‖, where there is one, as piecewise-linear networks do not have. No point is a sample itself:
    there activations may be at their kinks, where autograd names a slope that no neighbour has.

    >>> square = lambda x: (x**2).sum(1, keepdim=True) / 2            # ‖∇‖ = ‖x‖, so 1 + 0.5 at most
    >>> x, radius = torch.tensor([[1.0, 0.0]]).double(), torch.tensor([0.5]).double()
    >>> round(float(steepest_found(square, x, radius, 2.0, rows=False)), 3)
    1.5
    """
    generator = torch.Generator().manual_seed(seed)
    reach = radius * (1 - 1e-9)
    best: Tensor | None = None

    def look(at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        nonlocal best
        value, along, climb = jacobian_norms_of(function, at, norm, rows=rows)
        best = value if best is None else torch.maximum(best, value)
        return value, along, climb

    for start in range(starts):
        noise = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
        share = 1e-3 if start == 0 else 1.0
        at = project(x + share * reach.unsqueeze(1) * unit(noise), x, reach, norm, box)
        _, along, climb = look(at)
        for step in range(steps if bool((radius > 0).any()) else 0):
            far = step < steps // 3
            length = reach.unsqueeze(1) * (1.0 if far else 0.7 ** (step - steps // 3))
            jitter = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
            jitter = 1e-6 * reach.unsqueeze(1) * unit(jitter)
            base, way = (x, along) if far else (at, climb)
            sides = [project(base + sign * length * way + jitter, x, reach, norm, box) for sign in (1, -1)]
            first, second = look(sides[0]), look(sides[1])
            ahead = _largest(first[0]) >= _largest(second[0])
            pick = ahead.unsqueeze(1)
            at = torch.where(pick, sides[0], sides[1])
            along, climb = (
                torch.where(pick, one, other) for one, other in zip(first[1:], second[1:], strict=True)
            )
    assert best is not None
    return best


def _largest(norms: Tensor) -> Tensor:
    return norms.flatten(1).amax(1) if norms.ndim > 1 else norms


def jacobian_norms_of(
    function: Function, at: Tensor, norm: float, *, rows: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Norms of the Jacobian at flat points (P, d); directions (P, d) that it stretches most, and that it grows in."""
    with torch.enable_grad(), plain_attention():  # fused attention has no second derivative
        point = at.detach().requires_grad_(True)
        values = function(point)
        parts = [
            torch.autograd.grad(values[:, k].sum(), point, retain_graph=True, materialize_grads=True)[0]
            for k in range(values.shape[1])
        ]
        jacobian = torch.stack(parts, 1).detach()
        found, left, right = _norm_with_vectors(jacobian, norm, rows=rows)
        (slope,) = torch.autograd.grad(
            (values * left).sum(), point, create_graph=True, materialize_grads=True
        )
        stretched = (slope * right).sum()
        climb = torch.zeros_like(at)
        if stretched.requires_grad:
            (climb,) = torch.autograd.grad(stretched, point, materialize_grads=True)
    steady = climb.abs().amax(1, keepdim=True) > 0
    climb = torch.where(steady, furthest(climb.detach(), norm), right)
    return found.double(), right, climb


def _norm_with_vectors(jacobian: Tensor, norm: float, *, rows: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The norms, and u (P, k), v (P, d) with u·J·v the norm: of the steepest row, where rows are meant apart."""
    each = torch.arange(len(jacobian), device=jacobian.device)
    lengths = dual_lengths(jacobian, norm)
    if not rows and norm == 2:
        left, values, right = torch.linalg.svd(jacobian, full_matrices=False)
        return values[:, 0], left[:, :, 0], right[:, 0]
    if not rows and norm == 1:
        sums = jacobian.abs().sum(1)
        column = sums.argmax(1)
        right = torch.nn.functional.one_hot(column, jacobian.shape[2]).to(jacobian)
        return sums.amax(1), jacobian[each, :, column].sign(), right
    row = lengths.argmax(1)
    left = torch.nn.functional.one_hot(row, jacobian.shape[1]).to(jacobian)
    return (lengths if rows else lengths.amax(1)), left, furthest(jacobian[each, row], norm)
