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
from typing import Any

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
    free = _Free.beginning(bounds, ball, rows, first)
    best, chosen = ball.eps.new_full((len(rows),), -math.inf), free.copied()
    optimiser = torch.optim.Adam(free.groups(), betas=(0.8, 0.95), fused=True)
    for step in range(steps):
        with torch.enable_grad():
            tried = _within(ball, best, free.relaxations(first))
            found = bounds.backward(tried, rows, bounds.graph.output, proof=False)
        radius = found.detached().radii(bounds.norm).squeeze(1)
        better = (radius > best) & (best < enough)  # what is enough is not changed: others may go on
        best, chosen = torch.where(better, radius, best), chosen.replaced(better, free)
        todo = best < enough
        if step + 1 == steps or not bool(todo.any()):
            break
        optimiser.zero_grad()
        gap = found.lower.squeeze(1)
        torch.where(todo & gap.isfinite(), -gap, 0.0).sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        for group in optimiser.param_groups:
            group["lr"] *= _DECAY
        free.keep_within(first)
    relaxations = chosen.relaxations(first)
    # at the radius found, where what rounding takes off is that of the radius
    bound = bounds.backward(_within(ball, best, relaxations), rows, bounds.graph.output)
    return bound.radii(bounds.norm).squeeze(1), CaseSlopes(relaxations, bound.rows.squeeze(1))


def _within(ball: BallBounds, radius: Tensor, relaxations: dict[int, RowSlopes]) -> BallBounds:
    """Smaller balls around the same samples, with these relaxations."""
    return replace(ball.relaxed_by({**relaxations}), eps=radius.clamp(min=0).minimum(ball.eps))


@dataclass(frozen=True, eq=False)
class _Free:
    """What an ascent changes, by activation: slopes, and multipliers in units of the rows that reach it in each case.

    So a network times a thousand has the same radii, and other cases in the batch make no difference.
    """

    slopes: dict[int, Tensor]
    extras: dict[int, Tensor]
    units: dict[int, Tensor]

    @staticmethod
    def beginning(bounds: LinearBounds, ball: BallBounds, rows: Tensor, first: dict[int, RowSlopes]) -> _Free:
        met, found = bounds.rows_met(ball, rows), _Free({}, {}, {})
        for at, each in first.items():
            mean = met[at].abs().flatten(1).mean(1)
            unit = torch.where(mean > 0, mean, 1.0).reshape(-1, *[1] * (each.slope.ndim - 1))
            assert each.extra is not None
            found.slopes[at] = each.slope.clone().requires_grad_(True)
            found.extras[at] = (each.extra / unit).requires_grad_(True)
            found.units[at] = unit
        return found

    def groups(self) -> list[dict[str, Any]]:
        """For the optimiser: what is free, and how far one step goes."""
        return [{"params": [*self.slopes.values(), *self.extras.values()], "lr": _RATE}]

    def copied(self) -> _Free:
        slopes, extras = (
            {at: one.detach().clone() for at, one in part.items()} for part in (self.slopes, self.extras)
        )
        return _Free(slopes, extras, self.units)

    def replaced(self, better: Tensor, by: _Free) -> _Free:
        """The same, with those of others in the cases (C,) where that is better."""

        def mixed(old: dict[int, Tensor], new: dict[int, Tensor]) -> dict[int, Tensor]:
            return {
                at: torch.where(better.reshape(-1, *[1] * (one.ndim - 1)), new[at].detach(), one)
                for at, one in old.items()
            }

        return _Free(mixed(self.slopes, by.slopes), mixed(self.extras, by.extras), self.units)

    def relaxations(self, first: dict[int, RowSlopes]) -> dict[int, RowSlopes]:
        return {
            at: replace(each, slope=self.slopes[at], extra=self.extras[at] * self.units[at])
            for at, each in first.items()
        }

    @torch.no_grad()
    def keep_within(self, first: dict[int, RowSlopes]) -> None:
        """Slopes of the activation's own range: others are bounds too, and worse ones."""
        for at, slope in self.slopes.items():
            least, most = slope_range(first[at].curve, first[at].low, first[at].high)
            slope.copy_(slope.maximum(least.unsqueeze(1)).minimum(most.unsqueeze(1)))


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
            kept = start.relaxations[at].extra
            assert kept is not None
            extra = kept
        pieces = pieces_of(operation.curve, low, high)
        found[at] = RowSlopes(operation.curve, low, high, slope, pieces=pieces, extra=extra)
    return found
