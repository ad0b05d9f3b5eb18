"""Balls, boxes and hyperplanes: the geometry that every attack shares.

Points are flat: ``(…, d)``. A ``norm`` is 1, 2 or ``math.inf``; a box is ``(lower, upper)`` or None.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.core.errors import InputError

__all__ = [
    "check_norm",
    "clip",
    "dual_lengths",
    "dual_lengths_above",
    "furthest",
    "lengths",
    "nearest_on_hyperplane",
    "project",
    "steepest",
    "unit",
]

Box = tuple[float, float] | None


def check_norm(norm: float | str, *, one: bool = False) -> float:
    """2.0 or ``inf`` from what a user may write, and 1.0 where the caller can measure in L1 (``one``).

    >>> check_norm("inf"), check_norm(2), check_norm("L1", one=True)
    (inf, 2.0, 1.0)
    """
    if norm in (1, 1.0, "1", "L1", "l1"):
        if one:
            return 1.0
        raise InputError(
            f"norm={norm!r}: radii in L1 come from robustness and closest_examples; here use 2 or inf"
        )
    if norm in (2, 2.0, "2", "L2", "l2"):
        return 2.0
    if norm in (math.inf, "inf", "Linf", "linf"):
        return math.inf
    choices = "norm=1, norm=2 or norm=math.inf" if one else "norm=2 or norm=math.inf"
    raise InputError(f"norm={norm!r} is not supported: use {choices}")


def lengths(delta: Tensor, norm: float) -> Tensor:
    """‖δ‖ over the last axis, in float64 and without underflow.

    >>> lengths(torch.tensor([[3.0, 4.0]]), 2.0), lengths(torch.tensor([[3.0, -4.0]]), math.inf)
    (tensor([5.], dtype=torch.float64), tensor([4.], dtype=torch.float64))
    """
    found: Tensor = torch.linalg.vector_norm(delta.double(), norm, dim=-1)
    return found


def dual_lengths(rows: Tensor, norm: float) -> Tensor:
    """max rows·δ over ‖δ‖ ≤ 1, over the last axis: the norm dual to the one of the ball.

    >>> dual_lengths(torch.tensor([[3.0, -4.0]]), math.inf), dual_lengths(torch.tensor([[3.0, -4.0]]), 1.0)
    (tensor([7.]), tensor([4.]))
    """
    if norm == math.inf:
        return rows.abs().sum(-1)
    return rows.abs().amax(-1) if norm == 1 else torch.linalg.vector_norm(rows, dim=-1)


def dual_lengths_above(rows: Tensor, norm: float) -> Tensor:
    """The same in float64, never less than it is: squares of entries below 1e-154 vanish or lose digits.

    >>> float(dual_lengths_above(torch.tensor([3e-200, 4e-200], dtype=torch.float64), 2.0)) > 5e-200
    True
    """
    found = dual_lengths(rows, norm)
    if norm != 2:
        return found
    lost = 2e-154 * math.sqrt(rows.shape[-1])
    return torch.where((rows != 0).any(-1), found + lost, found)


def unit(direction: Tensor) -> Tensor:
    """v / ‖v‖₂ over the last axis; zero stays zero.

    Divides by the largest entry first: the gradients of a network of scale 1e-20 square to zero
    in float32, and an attack must not depend on the scale of the logits.

    >>> unit(torch.tensor([[3e-30, 4e-30], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    scaled = direction / _nonzero(direction.abs().amax(-1, keepdim=True))
    return scaled / _nonzero(torch.linalg.vector_norm(scaled, dim=-1, keepdim=True))


def steepest(gradient: Tensor, norm: float) -> Tensor:
    """The step of unit length that follows the gradient best: g/‖g‖₂, or sign(g) for L∞.

    For L1 it would move one coordinate alone, and take d steps where all have to move: g/‖g‖₂ there too, which the
    projection onto the ball makes sparse.
    """
    return gradient.sign() if norm == math.inf else unit(gradient)


def furthest(gradient: Tensor, norm: float) -> Tensor:
    """argmax g·δ over ‖δ‖ ≤ 1: sign(g), g/‖g‖₂, or the largest coordinate of g alone.

    >>> furthest(torch.tensor([[3.0, -4.0]]), 1.0)
    tensor([[ 0., -1.]])
    """
    if norm != 1:
        return steepest(gradient, norm)
    largest = gradient.abs().argmax(-1, keepdim=True)
    return torch.zeros_like(gradient).scatter(-1, largest, gradient.gather(-1, largest).sign())


def clip(x: Tensor, box: Box) -> Tensor:
    return x if box is None else x.clamp(*box)


def project(moved: Tensor, x: Tensor, radius: Tensor, norm: float, box: Box) -> Tensor:
    """``moved`` pulled back into the ball of ``radius`` (…) around ``x``, then into the box.

    Clipping only shortens the coordinates of ``moved − x`` because x lies in the box, so the result
    is feasible; for L2 it is not the nearest feasible point, which no published attack uses either.
    """
    delta = moved - x
    reach = radius.unsqueeze(-1)
    if norm == math.inf:
        delta = torch.minimum(torch.maximum(delta, -reach), reach)
    elif norm == 1:
        delta = _onto_l1_ball(delta, reach)
    else:
        length = torch.linalg.vector_norm(delta, dim=-1, keepdim=True)
        delta = delta * torch.where(length > reach, reach / _nonzero(length), 1.0)
    return clip(x + delta, box)


def _onto_l1_ball(delta: Tensor, reach: Tensor) -> Tensor:
    """The nearest point of ‖δ‖₁ ≤ reach: every |δ_i| less by one threshold θ, or 0 (Duchi et al. 2008).

    >>> _onto_l1_ball(torch.tensor([[3.0, -1.0, 0.5]]), torch.tensor([[2.0]]))
    tensor([[2., -0., 0.]])
    """
    size = delta.abs().sort(-1, descending=True).values
    count = torch.arange(1, size.shape[-1] + 1, device=size.device, dtype=size.dtype)
    thresholds = (size.cumsum(-1) - reach) / count
    last = (size > thresholds).to(size.dtype).mul(count).argmax(-1, keepdim=True)
    threshold = thresholds.gather(-1, last).clamp(min=0)
    return delta.sign() * (delta.abs() - threshold).clamp(min=0)


def nearest_on_hyperplane(x: Tensor, normal: Tensor, offset: Tensor, norm: float, box: Box) -> Tensor:
    """argmin ‖δ‖ with normal·(x + δ) + offset ≤ 0 and x + δ in the box; δ of shape (…, d).

    The optimum is δ_i = −sign(w_i)·min(λ·a_i, cap_i), a_i = |w_i| for L2 and 1 for L∞, cap_i the room
    that the box leaves. Σ|w_i| min(λ a_i, cap_i) is concave, increasing and piecewise linear in λ, so
    Newton's method from λ = 0 climbs to the root from below and ends after finitely many steps. For L1 the
    coordinates with the largest |w_i| go first, each as far as its room.
    Where the box admits no solution, the corner that comes closest is returned.

    >>> nearest_on_hyperplane(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]), torch.tensor([5.0]), 2.0, None)
    tensor([[-0.6000, -0.8000]])
    """
    need = ((normal * x).sum(-1) + offset).clamp(min=0)
    scale = _nonzero(normal.abs().amax(-1, keepdim=True))  # λ must not under- or overflow with the logits
    size, need = normal.abs() / scale, need / scale.squeeze(-1)
    speed = size if norm == 2 else torch.ones_like(size)
    if box is None:
        room = torch.full_like(size, math.inf)
    else:
        room = torch.where(normal > 0, x - box[0], box[1] - x).clamp(min=0)
    if norm == 1:
        return -normal.sign() * _largest_first(size, room, need)
    multiplier = need / _nonzero((size * speed).sum(-1))
    precision = 1e2 * torch.finfo(x.dtype).eps
    for _ in range(0 if box is None else 50):
        step = torch.minimum(multiplier.unsqueeze(-1) * speed, room)
        missing = need - (size * step).sum(-1)
        slope = torch.where(step < room, size * speed, 0.0).sum(-1)
        gain = torch.where(slope > 0, missing.clamp(min=0) / _nonzero(slope), 0.0)
        multiplier = multiplier + gain
        if not bool((gain > precision * multiplier).any()):
            break
    return -normal.sign() * torch.minimum(multiplier.unsqueeze(-1) * speed, room)


def _largest_first(size: Tensor, room: Tensor, need: Tensor) -> Tensor:
    """Steps s ≤ room with Σ size_i s_i = need, or as near as there is room, of the smallest sum: the steepest first."""
    order = size.argsort(-1, descending=True)
    size = size.gather(-1, order)
    most = torch.where(size > 0, size * room.gather(-1, order), 0.0)
    before = torch.cat([torch.zeros_like(most[..., :1]), most.cumsum(-1)[..., :-1]], -1)
    gained = torch.minimum((need.unsqueeze(-1) - before).clamp(min=0), most)
    return torch.zeros_like(size).scatter(-1, order, gained / _nonzero(size))


def _nonzero(value: Tensor) -> Tensor:
    return torch.where(value > 0, value, 1.0)
