"""The largest ball that linear bounds prove in one case: slopes and multipliers of neurons by ascent on the radius.

Where some neurons are known to be on one side of their kinks, a row·scores ≥ A·x' + c holds at every x' of the ball of
radius R that is in the case. So row·scores > 0 in the case wherever ‖x' − x‖ < (A·x + c)/‖A‖_dual: one ball gives a
radius by itself, without a search. For a radius r already proved, the ascent is on A·x + c − r‖A‖, which is concave in
what is free and positive exactly where the radius can be longer (Dinkelbach 1967).

With z ≥ 0 known, β·z ≥ 0 may be taken off for any β ≥ 0 (β-CROWN, Wang et al. 2021): on [0, u] the constant of
c·z ≥ (c − β)·z is 0, so this is a slope (``extra`` of `RowSlopes`) like any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.least_terms import pieces_of
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.operations import CurveOf
from undertow.adversary.certificates.relaxations import LinePair, slope_range
from undertow.adversary.certificates.row_slopes import RowSlopes

__all__ = ["CaseSlopes", "ascended_radii"]

_RATE, _DECAY = 0.1, 0.95


@dataclass(frozen=True, eq=False)
class CaseSlopes:
    """What was chosen in every case: relaxations of the activations, and the rows (C, d) at the input."""

    relaxations: dict[int, RowSlopes]
    rows: Tensor

    def taken(self, index: Tensor) -> CaseSlopes:
        """What was chosen in these cases."""
        each = {at: slopes.taken(index) for at, slopes in self.relaxations.items()}
        return CaseSlopes(each, self.rows[index])


def ascended_radii(
    bounds: LinearBounds,
    ball: BallBounds,
    rows: Tensor,
    *,
    start: CaseSlopes | None,
    enough: Tensor,
    steps: int,
) -> tuple[Tensor, CaseSlopes]:
    """Radii (C,) within which rows (C, 1, *S) are proved positive in their cases, and the slopes that prove it.

    ``ball`` has the limits of every case; the ascent begins at ``start`` and ends where all are at least ``enough``.
    Every radius is a proof, however few the steps; it may exceed that of the ball, beyond which it means nothing.
    """
    first = _first_slopes(bounds, ball, rows, start)
    slopes = {at: each.slope.clone().requires_grad_(True) for at, each in first.items()}
    extras = {at: _extra(each).clone().requires_grad_(True) for at, each in first.items()}
    ranges = {at: slope_range(each.curve, each.low, each.high) for at, each in first.items()}
    optimiser = _optimiser(bounds, ball, rows, slopes, extras)
    best, input_rows = ball.eps.new_full((len(rows),), -math.inf), None
    chosen: dict[int, tuple[Tensor, Tensor]] = {}
    for step in range(steps):
        now = {at: _with(each, slopes[at], extras[at]) for at, each in first.items()}
        with torch.enable_grad():
            gap, flat, radius = _radius(bounds, ball, rows, now, best.clamp(min=0))
        better = radius > best
        input_rows = flat if input_rows is None else torch.where(better.unsqueeze(1), flat, input_rows)
        for at, each in now.items():
            slope, extra = chosen.setdefault(at, (each.slope.detach().clone(), _extra(each).detach().clone()))
            slope[better], extra[better] = each.slope.detach()[better], _extra(each).detach()[better]
        best = torch.maximum(best, radius)
        todo = best < enough
        if step + 1 == steps or not bool(todo.any()):
            break
        optimiser.zero_grad()
        (-torch.where(todo & gap.isfinite(), gap, 0.0).sum()).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        for group in optimiser.param_groups:
            group["lr"] *= _DECAY
        with torch.no_grad():
            for at, slope in slopes.items():
                least, most = ranges[at]
                slope.copy_(torch.minimum(torch.maximum(slope, least.unsqueeze(1)), most.unsqueeze(1)))
    assert input_rows is not None
    found = {at: _with(each, *chosen[at]) for at, each in first.items()}
    return best, CaseSlopes(found, input_rows)


def _with(slopes: RowSlopes, slope: Tensor, extra: Tensor) -> RowSlopes:
    return RowSlopes(slopes.curve, slopes.low, slopes.high, slope, pieces=slopes.pieces, extra=extra)


def _extra(slopes: RowSlopes) -> Tensor:
    assert slopes.extra is not None
    return slopes.extra


def _radius(
    bounds: LinearBounds, ball: BallBounds, rows: Tensor, slopes: dict[int, RowSlopes], reached: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """A·x + c − r‖A‖ at the radii ``reached``, A, and the radius (A·x + c)/‖A‖: −inf or inf where A is zero."""
    tried = replace(ball.relaxed_by({**slopes}), eps=reached)
    found = bounds.backward(tried, rows, bounds.graph.output)
    radius = found.detached().radii(bounds.norm).squeeze(1)
    return found.lower.squeeze(1), found.rows.detach().squeeze(1), radius


def _first_slopes(
    bounds: LinearBounds, ball: BallBounds, rows: Tensor, start: CaseSlopes | None
) -> dict[int, RowSlopes]:
    met, found = bounds.rows_met(ball, rows), {}
    for at, operation in enumerate(bounds.graph.operations):
        lines = ball.relaxations.get(at)
        if at not in met or not isinstance(operation, CurveOf) or not isinstance(lines, LinePair):
            continue
        low, high = ball.limits[operation.inputs[0]]
        slope = torch.where(met[at] >= 0, lines.low_slope.unsqueeze(1), lines.high_slope.unsqueeze(1))
        extra = torch.zeros_like(slope)
        if start is not None:
            least, most = slope_range(operation.curve, low, high)
            slope = start.relaxations[at].slope.clamp(least.unsqueeze(1), most.unsqueeze(1))
            extra = _extra(start.relaxations[at])
        pieces = pieces_of(operation.curve, low, high)
        found[at] = RowSlopes(operation.curve, low, high, slope, pieces=pieces, extra=extra)
    return found


def _optimiser(
    bounds: LinearBounds,
    ball: BallBounds,
    rows: Tensor,
    slopes: dict[int, Tensor],
    extras: dict[int, Tensor],
) -> torch.optim.Adam:
    """Adam; multipliers in units of the rows, so that a network times a thousand has the same radii."""
    met = bounds.rows_met(ball, rows)
    groups = [{"params": [slope], "lr": _RATE} for slope in slopes.values()]
    groups += [{"params": [extra], "lr": _RATE * float(met[at].abs().mean())} for at, extra in extras.items()]
    return torch.optim.Adam(groups, betas=(0.8, 0.95))
