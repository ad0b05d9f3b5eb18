"""Linear bounds with slopes and multipliers chosen per sample and per row by ascent (α-CROWN, Xu et al. 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.ball_coupling import BallCoupling
from undertow.adversary.certificates.least_terms import pieces_of
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.lower_bounds import LowerBounds
from undertow.adversary.certificates.node_bounds import Relaxation
from undertow.adversary.certificates.operations import CurveOf
from undertow.adversary.certificates.relaxations import LinePair, slope_range
from undertow.adversary.certificates.row_slopes import RowSlopes

__all__ = ["ChosenSlopes", "ascended_bounds"]

_RATE = 0.1
_DECAY = 0.97
_LOOK = 5  # steps between two looks at whether all is proved


@dataclass(frozen=True, eq=False)
class ChosenSlopes:
    """What an ascent ended with: slopes (B, K, *S), and logarithms (B, K) of multipliers in units of their start.

    NaN where nothing is known.
    """

    slopes: dict[int, Tensor]
    levels: dict[int, Tensor]


def ascended_bounds(
    bounds: LinearBounds,
    ball: BallBounds,
    rows: Tensor,
    *,
    couplings: dict[int, BallCoupling],
    steps: int,
    until: float = math.inf,
    at: int | None = None,
    start: ChosenSlopes | None = None,
) -> tuple[LowerBounds, ChosenSlopes | None]:
    """Lower bounds of rows·scores, or of rows·value of the operation ``at``, with all slopes before it free.

    Every row and neuron has a slope of its own, every row and layer a multiplier of the ball. Adam, without a care for
    rounding; it begins at ``start``, if that is known, and ends where all bounds exceed ``until``. Each choice is a
    bound: the best of every row is then proved, rounding included.
    """
    output = bounds.graph.output if at is None else at
    starts = _starts(bounds, ball, rows, couplings, output)
    if not starts or steps == 0:
        return bounds.backward(ball, rows, output), None
    free = _Free.beginning(starts, start)
    best, chosen = torch.full_like(rows.flatten(2)[..., 0], -math.inf), free.copied()
    optimiser = torch.optim.Adam(free.groups(), betas=(0.9, 0.99), fused=True)
    for step in range(steps):
        last = step + 1 == steps
        with torch.set_grad_enabled(not last):
            tried = ball.relaxed_by(free.relaxations(starts))
            value = bounds.backward(tried, rows, output, proof=False).lower
        better = value.detach() > best
        best = torch.where(better, value.detach(), best)
        chosen = chosen.replaced(better, free)
        if last or (until < math.inf and step % _LOOK == 0 and bool((best > until).all())):
            break
        optimiser.zero_grad()
        torch.where(value.isfinite(), -value, 0.0).sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        for group in optimiser.param_groups:
            group["lr"] *= _DECAY
        free.keep_within()
    proved = ball.relaxed_by(chosen.relaxations(starts))
    return bounds.backward(proved, rows, output), chosen.slopes()


@dataclass(frozen=True, eq=False)
class _Free:
    """What an ascent changes, by operation: each slope as a share of the activation's range, and log multipliers.

    So a step is as long for every neuron as its range is wide, whatever others in the batch are like.
    """

    shares: dict[int, Tensor]
    levels: dict[int, Tensor]
    ranges: dict[int, tuple[Tensor, Tensor]]

    @staticmethod
    def beginning(starts: dict[int, RowSlopes], known: ChosenSlopes | None) -> _Free:
        found = _Free({}, {}, {})
        for index, own in starts.items():
            least, most = (side.unsqueeze(1) for side in slope_range(own.curve, own.low, own.high))
            width = most - least
            slope = own.slope
            if known is not None and index in known.slopes:
                slope = torch.where(known.slopes[index].isnan(), slope, known.slopes[index])
            share = torch.where(width > 0, (slope - least) / torch.where(width > 0, width, 1.0), 0.0)
            found.shares[index] = share.clamp(0, 1).requires_grad_(True)
            found.ranges[index] = least, width
            if own.level is not None:
                level = torch.zeros_like(own.level)
                if known is not None and index in known.levels:
                    level = torch.nan_to_num(known.levels[index], nan=0.0)
                found.levels[index] = level.requires_grad_(True)
        return found

    def groups(self) -> list[dict[str, Any]]:
        """For the optimiser: what is free, and how far one step goes."""
        shares: list[dict[str, Any]] = [{"params": [*self.shares.values()], "lr": _RATE}]
        return shares + [{"params": [*self.levels.values()], "lr": 2 * _RATE}] * bool(self.levels)

    def copied(self) -> _Free:
        shares, levels = (
            {at: one.detach().clone() for at, one in part.items()} for part in (self.shares, self.levels)
        )
        return _Free(shares, levels, self.ranges)

    def replaced(self, better: Tensor, by: _Free) -> _Free:
        """The same, with those of others in the rows (B, K) where that is better."""

        def mixed(old: Tensor, new: Tensor) -> Tensor:
            where = better.reshape(*better.shape, *[1] * (old.ndim - 2))
            return torch.where(where, new.detach(), old)

        shares = {at: mixed(one, by.shares[at]) for at, one in self.shares.items()}
        return _Free(shares, {at: mixed(one, by.levels[at]) for at, one in self.levels.items()}, self.ranges)

    def slopes(self) -> ChosenSlopes:
        return ChosenSlopes({index: self._slope(index) for index in self.shares}, self.levels)

    def _slope(self, index: int) -> Tensor:
        least, width = self.ranges[index]
        return torch.addcmul(least, width, self.shares[index])

    def relaxations(self, starts: dict[int, RowSlopes]) -> dict[int, Relaxation]:
        found: dict[int, Relaxation] = {}
        for index, own in starts.items():
            level = None if own.level is None else own.level * self.levels[index].exp()
            found[index] = replace(own, slope=self._slope(index), level=level)
        return found

    @torch.no_grad()
    def keep_within(self) -> None:
        """Other slopes are bounds too, and worse ones."""
        for share in self.shares.values():
            share.clamp_(0, 1)


def _starts(
    bounds: LinearBounds, ball: BallBounds, rows: Tensor, couplings: dict[int, BallCoupling], output: int
) -> dict[int, RowSlopes]:
    """Where the ascent begins: lines by the signs of the rows that reach each activation, chords with a coupling."""
    met = bounds.rows_met(ball, rows, output)
    found = {}
    for index, operation in enumerate(bounds.graph.operations):
        lines = ball.relaxations.get(index)
        if index not in met or not isinstance(operation, CurveOf) or not isinstance(lines, LinePair):
            continue
        low, high = ball.limits[operation.inputs[0]]
        row = met[index]
        slope = torch.where(row >= 0, lines.low_slope.unsqueeze(1), lines.high_slope.unsqueeze(1))
        coupling, level = couplings.get(index), None
        if coupling is not None:
            # the chord on either side, and the multiplier at which a linear function is smallest on the ball
            width = high - low
            rise = operation.curve.value(high) - operation.curve.value(low)
            chord = torch.where(width > 0, rise / torch.where(width > 0, width, 1.0), lines.low_slope)
            slope = chord.unsqueeze(1).expand_as(slope).clone()
            weight = coupling.weight.unsqueeze(1)
            share = torch.where(weight > 0, 0.25 * row.square() / weight.clamp(min=1e-300), 0.0)
            level = (share.flatten(2).sum(2) / coupling.square.clamp(min=1e-300).unsqueeze(1)).sqrt()
            level = level.clamp(min=1e-30, max=math.inf)
        pieces = () if coupling is None else pieces_of(operation.curve, low, high)
        kink = lines if coupling is None and operation.curve.homogeneous else None
        found[index] = RowSlopes(
            operation.curve, low, high, slope.detach(), coupling, level, pieces, lines=kink
        )
    return found
