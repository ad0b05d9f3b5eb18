"""Linear bounds with slopes and multipliers chosen per sample and per row by ascent (α-CROWN, Xu et al. 2021)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_coupling import BallCoupling, BallCouplings
from undertow.adversary.certificates.linear_bounds import BallBounds, LinearBounds
from undertow.adversary.certificates.operations import Activation
from undertow.adversary.certificates.relaxations import Lines, slope_range
from undertow.adversary.certificates.row_slopes import RowSlopes

__all__ = ["ascended_bounds"]

_RATE = 0.25


def ascended_bounds(
    bounds: LinearBounds, ball: BallBounds, rows: Tensor, *, couplings: BallCouplings | None, steps: int
) -> tuple[Tensor, Tensor]:
    """Lower bounds (B, K) of rows·scores with the slopes of all activations free, and before any step.

    Every row and neuron has a slope of its own, every row and layer a multiplier of the ball; each choice is a bound, and
    of all that are tried the best is kept. Adam, in units of each activation's range of slopes.
    """
    output = bounds.graph.output
    plain, _ = bounds.backward(ball, rows, output)
    starts = _starts(bounds, ball, rows, {} if couplings is None else couplings.on(ball))
    if not starts or steps == 0:
        return plain, plain
    best = plain
    slopes = {index: start.slope.clone().requires_grad_(True) for index, start in starts.items()}
    levels = {
        index: torch.zeros_like(start.level).requires_grad_(True)
        for index, start in starts.items()
        if start.level is not None
    }
    ranges = {
        index: slope_range(start.curve, start.low, start.high) for index, start in starts.items()
    }
    rates = {
        index: _RATE * (most - least).amax().clamp(min=1e-12).item() for index, (least, most) in ranges.items()
    }
    optimiser = torch.optim.Adam(
        [{"params": [slope], "lr": rates[index]} for index, slope in slopes.items()]
        + [{"params": [level], "lr": 2 * _RATE} for level in levels.values()],
        betas=(0.9, 0.99),
    )
    for step in range(steps):
        tried = BallBounds(ball.x, ball.eps, ball.limits, ball.sizes, dict(ball.relaxations))
        for index, start in starts.items():
            level = None
            if start.level is not None:
                level = start.level * levels[index].exp()
            tried.relaxations[index] = RowSlopes(  # type: ignore[assignment]
                start.curve, start.low, start.high, slopes[index], start.coupling, level
            )
        with torch.enable_grad():
            found, _ = bounds.backward(tried, rows, output)
            loss = -torch.where(found.isfinite(), found, 0.0).sum()
        best = torch.maximum(best, found.detach())
        if step + 1 < steps:
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            for group in optimiser.param_groups:
                group["lr"] *= 0.95
            optimiser.step()
            with torch.no_grad():
                for index, slope in slopes.items():
                    least, most = ranges[index]
                    slope.copy_(torch.minimum(torch.maximum(slope, least.unsqueeze(1)), most.unsqueeze(1)))
    return best, plain


def _starts(
    bounds: LinearBounds, ball: BallBounds, rows: Tensor, couplings: dict[int, BallCoupling]
) -> dict[int, RowSlopes]:
    """Where the ascent begins: plain lines by the signs of the rows that reach each activation, chords with a coupling."""
    met = bounds.rows_met(ball, rows)
    found = {}
    for index, operation in enumerate(bounds.graph.operations):
        lines = ball.relaxations.get(index)
        if index not in met or not isinstance(operation, Activation) or not isinstance(lines, Lines):
            continue
        low, high = ball.limits[operation.inputs[0]]
        row = met[index]
        slope = torch.where(row >= 0, lines.low_slope.unsqueeze(1), lines.high_slope.unsqueeze(1))
        coupling, level = couplings.get(index), None
        if coupling is not None:
            # the chord on both sides, and the multiplier at which a linear function is smallest on the ball
            chord = torch.where((lines.high_offset > 0), lines.high_slope, lines.low_slope)
            chord = torch.where(lines.low_offset < 0, lines.low_slope, chord)
            slope = chord.unsqueeze(1).expand_as(slope).clone()
            weight = coupling.weight.unsqueeze(1)
            share = torch.where(weight > 0, 0.25 * row.square() / weight.clamp(min=1e-300), 0.0)
            level = (share.flatten(2).sum(2) / coupling.square.clamp(min=1e-300).unsqueeze(1)).sqrt()
            level = level.clamp(min=1e-30, max=math.inf)
        found[index] = RowSlopes(operation.curve, low, high, slope.detach(), coupling, level)
    return found
