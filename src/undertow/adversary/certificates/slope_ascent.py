"""Linear bounds with slopes and multipliers chosen per sample and per row by ascent (α-CROWN, Xu et al. 2021)."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_coupling import BallCoupling
from undertow.adversary.certificates.linear_bounds import BallBounds, LinearBounds
from undertow.adversary.certificates.operations import CurveOf
from undertow.adversary.certificates.relaxations import LinePair, slope_range
from undertow.adversary.certificates.row_slopes import RowSlopes, pieces_of

__all__ = ["ascended_bounds"]

_RATE = 0.1
_DECAY = 0.97


def ascended_bounds(
    bounds: LinearBounds,
    ball: BallBounds,
    rows: Tensor,
    *,
    couplings: dict[int, BallCoupling],
    steps: int,
    until: float = math.inf,
    at: int | None = None,
) -> Tensor:
    """Lower bounds (B, K) of rows·scores, or of rows·value of the operation ``at``, with all slopes before it free.

    Every row and neuron has a slope of its own, every row and layer a multiplier of the ball; each choice is a bound,
    and of all that are tried the best is kept. Adam, in units of each activation's range of slopes; it ends where all
    bounds exceed ``until``.
    """
    output = bounds.graph.output if at is None else at
    best, _ = bounds.backward(ball, rows, output)
    starts = _starts(bounds, ball, rows, couplings, output)
    if not starts or steps == 0 or bool((best > until).all()):
        return best
    slopes = {index: start.slope.clone().requires_grad_(True) for index, start in starts.items()}
    levels = {
        index: torch.zeros_like(start.level).requires_grad_(True)
        for index, start in starts.items()
        if start.level is not None
    }
    ranges = {index: slope_range(start.curve, start.low, start.high) for index, start in starts.items()}
    optimiser = _optimiser(slopes, levels, ranges)
    for step in range(steps):
        tried = BallBounds(ball.x, ball.eps, ball.limits, ball.sizes, dict(ball.relaxations))
        for index, start in starts.items():
            level = None if start.level is None else start.level * levels[index].exp()
            tried.relaxations[index] = replace(start, slope=slopes[index], level=level)
        with torch.enable_grad():
            found, _ = bounds.backward(tried, rows, output)
            loss = -torch.where(found.isfinite(), found, 0.0).sum()
        best = torch.maximum(best, found.detach())
        if step + 1 == steps or bool((best > until).all()):
            break
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        for group in optimiser.param_groups:
            group["lr"] *= _DECAY
        with torch.no_grad():
            for index, slope in slopes.items():
                least, most = ranges[index]
                slope.copy_(torch.minimum(torch.maximum(slope, least.unsqueeze(1)), most.unsqueeze(1)))
    return best


def _optimiser(
    slopes: dict[int, Tensor],
    levels: dict[int, Tensor],
    ranges: dict[int, tuple[Tensor, Tensor]],
) -> torch.optim.Adam:
    def width(index: int) -> float:
        least, most = ranges[index]
        return float((most - least).amax().clamp(min=1e-12))

    groups = [{"params": [slope], "lr": _RATE * width(index)} for index, slope in slopes.items()]
    groups += [{"params": [level], "lr": 2 * _RATE} for level in levels.values()]
    return torch.optim.Adam(groups, betas=(0.9, 0.99))


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
