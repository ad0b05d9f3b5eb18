"""Certified radii made longer: slopes optimised, and in L2 the neurons of each layer coupled by the ball."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.ball_coupling import BallCouplings
from undertow.adversary.certificates.bracket import Reach, largest_radius
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.row_budget import in_parts, row_entries
from undertow.adversary.certificates.score_gaps import ScoreGaps, difference_rows, joined_gaps
from undertow.adversary.certificates.sharpened_limits import sharpened
from undertow.adversary.certificates.slope_ascent import ascended_bounds

__all__ = ["refined_gaps", "refined_radii"]

_NEAR = 1.0  # times the difference at the sample: bounds below minus that are not worth narrower limits
_FURTHER = 3.0  # times the radius of the ball: bounds that reach as far are good enough for the next
_FIRST = 1.1  # times the radius known: the first ball tried
_RTOL = 0.01
_TRIALS = 4


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
    further: bool = False,
) -> ScoreGaps:
    """Bounds of s_y − s_t over the balls; those beyond ``until`` are not refined, others until they are (or ``further``).

    ``sharp`` makes limits of late layers narrower for samples whose bounds are near to what is wanted.
    """
    graph = bounds.graph
    classes, shape = graph.classes, graph.operations[graph.output].shape
    effort = _Effort(couplings, steps, until, further)

    def refined(part: Tensor) -> ScoreGaps:
        labels, ball = y[part], bounds.ball(x[part], eps[part])
        rows = difference_rows(labels, classes).reshape(len(part), classes, *shape)
        gaps = ScoreGaps.of(bounds.backward(ball, rows, graph.output), labels, ball.eps, bounds.norm)
        if steps == 0:
            return gaps
        gaps = _ascended(bounds, ball, rows, gaps, effort)
        if not sharp:
            return gaps
        level = (rows * ball.values[graph.output].unsqueeze(1)).flatten(2).sum(2)
        near = (gaps.lower > -_NEAR * level).all(1) & (further | (gaps.lower <= until).any(1))
        some = near.nonzero().squeeze(1)
        if len(some) == 0:
            return gaps
        narrow, own = sharpened(bounds, ball.taken(some), couplings), rows[some]
        plain = bounds.backward(narrow, own, graph.output)
        better = gaps.taken(some).better(ScoreGaps.of(plain, labels[some], narrow.eps, bounds.norm))
        return gaps.with_samples(some, _ascended(bounds, narrow, own, better, effort))

    everyone = torch.arange(len(x), device=x.device)
    return joined_gaps(in_parts(everyone, row_entries(x.device) // (2 * bounds.widest * classes), refined))


@dataclass(frozen=True, eq=False)
class _Effort:
    """What is done for bounds that do not exceed ``until``, and whether it goes on beyond."""

    couplings: BallCouplings | None
    steps: int
    until: float
    further: bool


def _ascended(
    bounds: LinearBounds, ball: BallBounds, rows: Tensor, gaps: ScoreGaps, effort: _Effort
) -> ScoreGaps:
    """The gaps (B, k), those that are not good enough by an ascent each."""
    enough = _FURTHER * ball.eps.unsqueeze(1)
    wanting = gaps.would <= enough if effort.further else gaps.lower <= effort.until
    samples, targets = wanting.nonzero(as_tuple=True)
    if len(samples) == 0:
        return gaps
    known = {} if effort.couplings is None else effort.couplings.on(ball)
    better, _ = ascended_bounds(
        bounds,
        ball.taken(samples),
        rows[samples, targets].unsqueeze(1),
        couplings={index: coupling.taken(samples) for index, coupling in known.items()},
        steps=effort.steps,
        until=math.inf if effort.further else effort.until,
    )
    return gaps.with_pairs(samples, targets, better, ball.eps[samples], bounds.norm)


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

        def reach(radius: Tensor, index: Tensor, sharp: bool = sharp) -> Reach:
            gaps = refined_gaps(
                bounds,
                x[index],
                y[index],
                radius,
                couplings=couplings,
                steps=steps,
                until=0.0,
                sharp=sharp,
                further=True,
            )
            return gaps.reach(radius)

        start = torch.where(known.isfinite(), _FIRST * known, 0.0)
        found = largest_radius(reach, guess=start, rtol=_RTOL, steps=_TRIALS)
        known = torch.maximum(known, found)
    return known
