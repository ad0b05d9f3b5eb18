"""Certified radii made longer: slopes optimised, and in L2 the neurons of each layer coupled by the ball."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_coupling import BallCouplings
from undertow.adversary.certificates.certified import difference_rows
from undertow.adversary.certificates.linear_bounds import BallBounds, LinearBounds
from undertow.adversary.certificates.row_budget import row_entries
from undertow.adversary.certificates.sharpened_limits import sharpened
from undertow.adversary.certificates.slope_ascent import ascended_bounds

__all__ = ["refined_gaps", "refined_radii"]

_NEAR = 1.0  # times the difference at the sample: bounds below minus that are not worth narrower limits
_FIRST, _GROWTH = 1.03, 1.15  # factors tried beyond the radius known, the later ones larger
_TRIALS, _HALVINGS = 12, 4  # of these, and of the interval in which a proof was first missing


def refined_gaps(
    bounds: LinearBounds,
    x: Tensor,
    y: Tensor,
    eps: Tensor,
    *,
    couplings: BallCouplings | None = None,
    steps: int = 20,
    until: float = math.inf,
    sharp: bool = True,
) -> Tensor:
    """Lower bounds (B, k) of s_y − s_t over the balls, +inf at t = y; those beyond ``until`` are not refined.

    ``sharp`` makes limits of late layers narrower for samples whose bounds are near to what is wanted.
    """
    graph = bounds.graph
    classes, shape, found = graph.classes, graph.operations[graph.output].shape, []
    for part in torch.split(
        torch.arange(len(x), device=x.device), max(1, row_entries(x.device) // (2 * bounds.widest * classes))
    ):
        labels = y[part]
        ball = bounds.ball(x[part], eps[part])
        rows = difference_rows(labels, classes).reshape(len(part), classes, *shape)
        lower, _ = bounds.backward(ball, rows, graph.output)
        lower = lower.scatter(1, labels.unsqueeze(1), math.inf)
        if steps:
            lower = _ascended(bounds, ball, rows, lower, couplings, steps=steps, until=until)
        if steps and sharp:
            level = (rows * graph.values(ball.x)[graph.output].unsqueeze(1)).flatten(2).sum(2)
            some = ((lower > -_NEAR * level).all(1) & (lower <= until).any(1)).nonzero().squeeze(1)
            if len(some):
                narrow, own = sharpened(bounds, ball.taken(some), couplings), rows[some]
                lower[some] = _ascended(bounds, narrow, own, lower[some], couplings, steps=steps, until=until)
        found.append(lower)
    return torch.cat(found)


def _ascended(
    bounds: LinearBounds,
    ball: BallBounds,
    rows: Tensor,
    lower: Tensor,
    couplings: BallCouplings | None,
    *,
    steps: int,
    until: float,
) -> Tensor:
    """The bounds (B, k), those that do not exceed ``until`` by an ascent each."""
    samples, targets = (lower <= until).nonzero(as_tuple=True)
    if len(samples) == 0:
        return lower
    known = {} if couplings is None else couplings.on(ball)
    better = ascended_bounds(
        bounds,
        ball.taken(samples),
        rows[samples, targets].unsqueeze(1),
        couplings={index: coupling.taken(samples) for index, coupling in known.items()},
        steps=steps,
        until=until,
    )
    return lower.index_put((samples, targets), torch.maximum(lower[samples, targets], better.squeeze(1)))


def refined_radii(
    bounds: LinearBounds,
    x: Tensor,
    y: Tensor,
    known: Tensor,
    *,
    steps: int = 20,
    coupled: bool = True,
) -> Tensor:
    """Radii (B,) at least as long as those ``known``: what was tried beyond them and proved.

    First with slopes and couplings alone, then with narrower limits of late layers.
    """
    couplings = BallCouplings(bounds) if coupled and bounds.norm == 2 else None
    for sharp in (False, True):
        known = _longer(bounds, x, y, known, couplings, steps=steps, sharp=sharp)
    return known


def _longer(
    bounds: LinearBounds,
    x: Tensor,
    y: Tensor,
    known: Tensor,
    couplings: BallCouplings | None,
    *,
    steps: int,
    sharp: bool,
) -> Tensor:
    low, high = known.clone(), torch.full_like(known, math.inf)
    todo = (known > 0) & known.isfinite()
    for trial in range(_TRIALS + _HALVINGS):
        if trial < _TRIALS:
            some = (todo & high.isinf()).nonzero().squeeze(1)
            radius = (min(_GROWTH ** (1 + trial / 2), 2.0) if trial else _FIRST) * low[some]
        else:
            some = (todo & high.isfinite()).nonzero().squeeze(1)
            radius = (low[some] * high[some]).sqrt()
        if len(some) == 0:
            continue
        gaps = refined_gaps(
            bounds, x[some], y[some], radius, couplings=couplings, steps=steps, until=0.0, sharp=sharp
        )
        holds = gaps.amin(1) > 0
        low[some[holds]], high[some[~holds]] = radius[holds], radius[~holds]
        if trial == 0:  # what a first step does not lengthen is not worth more
            todo[some[~holds]] = False
    return low
