"""The smallest value of a linear function on a ball, or on the part of it inside the box of valid inputs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.adversary.geometry import dual_lengths_above

__all__ = ["smallest_step"]

Box = tuple[float, float] | None
_STEPS = 8  # towards the multiplier of the L2 ball; a bound after any number of them


def smallest_step(rows: Tensor, x: Tensor, eps: Tensor, norm: float, box: Box) -> Tensor:
    """min rows·δ over ‖δ‖ ≤ ε with x + δ in the box, from below: (B, K) for rows (B or 1, K, d), x (B, d), ε (B,).

    Without a box that is −ε‖rows‖_dual. In L∞ ball and box together are a box. In L2 and L1 weak duality bounds it, for
    any λ ≥ 0 and with s_i the room that the box leaves in the direction of descent:
    rows·δ ≥ −λε²/2 + Σ_i min_{0 ≤ t ≤ s_i} (λt²/2 − |row_i|t), and rows·δ ≥ −λε − Σ_i max(|row_i| − λ, 0)·s_i.

    >>> rows = torch.tensor([[[3.0, -4.0]]], dtype=torch.float64)
    >>> x, eps = torch.full((1, 2), 0.5, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    >>> [round(float(smallest_step(rows, x, eps, norm, (0.0, 1.0))), 6) for norm in (1.0, 2.0, math.inf)]
    [-3.5, -3.5, -3.5]
    """
    reach = eps.unsqueeze(1)
    plain = -reach * dual_lengths_above(rows, norm)
    if box is None:
        return plain
    below, above = (x - box[0]).clamp(min=0), (box[1] - x).clamp(min=0)
    if norm == math.inf:
        below, above = torch.minimum(below, reach), torch.minimum(above, reach)
        return -(_dot(rows.clamp(min=0), below) + _dot(-rows.clamp(max=0), above))
    size = rows.abs()
    room = torch.where(rows > 0, below.unsqueeze(1), above.unsqueeze(1))
    room = torch.minimum(room, reach.unsqueeze(1))
    found = _l1_bound(size, room, reach) if norm == 1 else _l2_bound(size, room, reach)
    return torch.maximum(plain, found)


def _dot(rows: Tensor, vector: Tensor) -> Tensor:
    """rows·vector, (B, K), for rows (B or 1, K, d) and vector (B, d)."""
    if len(rows) == 1:
        return vector @ rows[0].T
    return (rows @ vector.unsqueeze(-1)).squeeze(-1)


def _l1_bound(size: Tensor, room: Tensor, reach: Tensor) -> Tensor:
    """The best λ is the size of the coordinate at which the ball is used up, the largest going first."""
    order = size.expand_as(room).argsort(-1, descending=True)
    used = room.gather(-1, order).cumsum(-1)
    last = (used < reach.unsqueeze(-1)).sum(-1, keepdim=True)
    full = last >= size.shape[-1]
    level = size.expand_as(room).gather(-1, order).gather(-1, last.clamp(max=size.shape[-1] - 1))
    level = torch.where(full, 0.0, level)
    return -(level.squeeze(-1) * reach) - ((size - level).clamp(min=0) * room).sum(-1)


def _l2_bound(size: Tensor, room: Tensor, reach: Tensor) -> Tensor:
    square = reach**2
    level = torch.linalg.vector_norm(size, dim=-1) / torch.where(reach > 0, reach, 1.0)
    level = level.expand(room.shape[:2])
    best = torch.full_like(level, -math.inf)
    for _ in range(_STEPS):
        positive = level.clamp(min=1e-300).unsqueeze(-1)
        step = torch.minimum(size / positive, room)
        value = (0.5 * positive * step**2 - size * step).sum(-1) - 0.5 * level * square
        best = torch.maximum(best, value)
        # coordinates at their room's end stay there; the others share what is left of the ball
        at_end = size >= positive * room
        left = (square - torch.where(at_end, room**2, 0.0).sum(-1)).clamp(min=0)
        free = torch.where(at_end, 0.0, size).square().sum(-1)
        level = torch.where((left > 0) & (free > 0), (free / left.clamp(min=1e-300)).sqrt(), 0.5 * level)
    corner = -(size * room).sum(-1)  # λ = 0
    return torch.maximum(best, corner)
