"""Linear bounds with slopes and multipliers chosen per sample and per row by ascent (α-CROWN, Xu et al. 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.ball_coupling import BallCoupling
from undertow.adversary.certificates.least_terms import pieces_of
from undertow.adversary.certificates.linear_bounds import LinearBounds, LowerBounds
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
    """What an ascent ended with: slopes (B, K, *S), and logarithms (B, K) of multipliers in units of their start."""

    slopes: dict[int, Tensor]
    levels: dict[int, Tensor]

    def taken(self, index: Tensor) -> ChosenSlopes:
        """Those of these samples."""
        return ChosenSlopes(
            {at: slope[index] for at, slope in self.slopes.items()},
            {at: level[index] for at, level in self.levels.items()},
        )


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

    Every row and neuron has a slope of its own, every row and layer a multiplier of the ball. Adam, in units of each
    activation's range of slopes, without a care for rounding; it ends where all bounds exceed ``until``. Each choice is
    a bound: the best of every row is then proved, rounding included.
    """
    output = bounds.graph.output if at is None else at
    starts = _starts(bounds, ball, rows, couplings, output)
    if not starts or steps == 0:
        return bounds.backward(ball, rows, output), None
    ranges = {index: slope_range(own.curve, own.low, own.high) for index, own in starts.items()}
    free = _Free.beginning(starts, start)
    free.keep_within(ranges)
    best = torch.full_like(rows.flatten(2)[..., 0], -math.inf)
    chosen = ChosenSlopes(*({at: one.detach().clone() for at, one in part.items()} for part in free.parts))
    optimiser = _optimiser(free, ranges)
    for step in range(steps):
        last = step + 1 == steps
        with torch.set_grad_enabled(not last):
            tried = ball.relaxed_by(free.relaxations(starts))
            value = bounds.without_rounding(tried, rows, output)
        better = value.detach() > best
        best = torch.where(better, value.detach(), best)
        for kept, now in zip((chosen.slopes, chosen.levels), free.parts, strict=True):
            for index, one in now.items():
                shape = (*better.shape, *[1] * (one.ndim - 2))
                kept[index] = torch.where(better.reshape(shape), one.detach(), kept[index])
        if last or (until < math.inf and step % _LOOK == 0 and bool((best > until).all())):
            break
        optimiser.zero_grad()
        torch.where(value.isfinite(), -value, 0.0).sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        for group in optimiser.param_groups:
            group["lr"] *= _DECAY
        free.keep_within(ranges)
    proved = ball.relaxed_by(_Free(chosen.slopes, chosen.levels).relaxations(starts))
    return bounds.backward(proved, rows, output), chosen


@dataclass(frozen=True, eq=False)
class _Free:
    """What an ascent changes, by operation: `ChosenSlopes` while they are being chosen."""

    slopes: dict[int, Tensor]
    levels: dict[int, Tensor]

    @staticmethod
    def beginning(starts: dict[int, RowSlopes], known: ChosenSlopes | None) -> _Free:
        slopes, levels = {}, {}
        for index, own in starts.items():
            slope = own.slope if known is None else known.slopes[index]
            slopes[index] = slope.detach().clone().requires_grad_(True)
            if own.level is not None:
                level = torch.zeros_like(own.level) if known is None else known.levels[index]
                levels[index] = level.detach().clone().requires_grad_(True)
        return _Free(slopes, levels)

    @property
    def parts(self) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        return self.slopes, self.levels

    def relaxations(self, starts: dict[int, RowSlopes]) -> dict[int, Relaxation]:
        found: dict[int, Relaxation] = {}
        for index, own in starts.items():
            level = None if own.level is None else own.level * self.levels[index].exp()
            found[index] = replace(own, slope=self.slopes[index], level=level)
        return found

    @torch.no_grad()
    def keep_within(self, ranges: dict[int, tuple[Tensor, Tensor]]) -> None:
        """Slopes within the range of the activation's own: others are bounds too, and worse ones."""
        for index, slope in self.slopes.items():
            least, most = ranges[index]
            slope.copy_(slope.maximum(least.unsqueeze(1)).minimum(most.unsqueeze(1)))


def _optimiser(free: _Free, ranges: dict[int, tuple[Tensor, Tensor]]) -> torch.optim.Adam:
    def width(index: int) -> float:
        least, most = ranges[index]
        return float((most - least).amax().clamp(min=1e-12))

    groups = [{"params": [slope], "lr": _RATE * width(index)} for index, slope in free.slopes.items()]
    groups += [{"params": [level], "lr": 2 * _RATE} for level in free.levels.values()]
    return torch.optim.Adam(groups, betas=(0.9, 0.99), fused=True)


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
        found[index] = RowSlopes(operation.curve, low, high, slope.detach(), coupling, level, pieces)
    return found
