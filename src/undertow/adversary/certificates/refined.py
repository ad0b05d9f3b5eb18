"""Certified radii made longer: slopes optimised, and in L2 the neurons of each layer coupled by the ball."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.ball_coupling import BallCouplings
from undertow.adversary.certificates.bracket import Reach, largest_radius
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.member_batches import taken
from undertow.adversary.certificates.row_budget import in_parts, row_entries
from undertow.adversary.certificates.score_gaps import ScoreGaps, difference_rows, joined_gaps
from undertow.adversary.certificates.sharpened_limits import sharpened
from undertow.adversary.certificates.slope_ascent import ascended_bounds
from undertow.adversary.certificates.slope_memory import SlopeMemory
from undertow.core.deadline import Deadline, TimeUp

__all__ = ["Effort", "refined_gaps", "refined_radii"]

_NEAR = 1.0  # times the difference at the sample: bounds below minus that are not worth narrower limits
_FURTHER = 3.0  # times the radius of the ball: bounds that reach as far are good enough for the next
_FIRST, _THEN = 1.1, 1.04  # times the radius known: the first ball tried, and the first with narrower limits
_RTOL = 0.01
_TRIALS, _MORE, _CHEAP = (
    4,
    8,
    1e8,
)  # balls tried, more of them where one takes fewer multiplications than that


@dataclass(frozen=True, eq=False)
class Effort:
    """What is done for bounds of s_y − s_t that plain linear bounds leave open.

    Args:
        couplings: what the L2 ball says of all neurons of a layer together; None to do without.
        steps: of every ascent; 0 for plain bounds.
        until: bounds beyond are good enough.
        sharp: whether limits of late layers are made narrower, for samples whose bounds are near to what is wanted.
        further: whether ascents go on beyond ``until``, for a radius.
    """

    couplings: BallCouplings | None = None
    steps: int = 20
    until: float = math.inf
    sharp: bool = True
    further: bool = False


def refined_gaps(
    bounds: LinearBounds,
    x: Tensor,
    y: Tensor,
    eps: Tensor,
    effort: Effort,
    *,
    who: Tensor | None = None,
    memory: SlopeMemory | None = None,
    places: Tensor | None = None,
) -> ScoreGaps:
    """Bounds of s_y − s_t over the balls; a ``memory`` knows the samples by their ``places`` in it."""
    graph = bounds.graph
    classes, shape = graph.classes, graph.operations[graph.output].shape

    def refined(part: Tensor) -> ScoreGaps:
        labels, ball = y[part], bounds.ball(x[part], eps[part], who=taken(who, part))
        rows = difference_rows(labels, classes).reshape(len(part), classes, *shape)
        gaps = ScoreGaps.of(bounds.backward(ball, rows, graph.output), labels, ball.eps, bounds.norm)
        if effort.steps == 0:
            return gaps
        recall = None if memory is None or places is None else _Recall(memory, places[part])
        gaps = _ascended(bounds, ball, rows, gaps, effort, recall)
        if not effort.sharp:
            return gaps
        level = (rows * ball.values[graph.output].unsqueeze(1)).flatten(2).sum(2)
        wanting = (gaps.lower <= effort.until).any(1) | effort.further
        some = (wanting & (gaps.lower > -_NEAR * level).all(1)).nonzero().squeeze(1)
        if len(some) == 0:
            return gaps
        narrow, own = sharpened(bounds, ball.taken(some), effort.couplings), rows[some]
        plain = bounds.backward(narrow, own, graph.output)
        better = gaps.taken(some).better(ScoreGaps.of(plain, labels[some], narrow.eps, bounds.norm))
        recall = None if recall is None else replace(recall, places=recall.places[some])
        return gaps.with_samples(some, _ascended(bounds, narrow, own, better, effort, recall))

    everyone = torch.arange(len(x), device=x.device)
    return joined_gaps(in_parts(everyone, row_entries(x.device) // (2 * bounds.widest * classes), refined))


@dataclass(frozen=True, eq=False)
class _Recall:
    """Where the samples of a batch are in a memory of slopes."""

    memory: SlopeMemory
    places: Tensor


def _ascended(
    bounds: LinearBounds,
    ball: BallBounds,
    rows: Tensor,
    gaps: ScoreGaps,
    effort: Effort,
    recall: _Recall | None,
) -> ScoreGaps:
    """The gaps (B, k), those that are not good enough by an ascent each."""
    enough = _FURTHER * ball.eps.unsqueeze(1)
    wanting = gaps.would <= enough if effort.further else gaps.lower <= effort.until
    samples, targets = wanting.nonzero(as_tuple=True)
    if len(samples) == 0:
        return gaps
    known = {} if effort.couplings is None else effort.couplings.on(ball)
    better, chosen = ascended_bounds(
        bounds,
        ball.taken(samples),
        rows[samples, targets].unsqueeze(1),
        couplings={index: coupling.taken(samples) for index, coupling in known.items()},
        steps=effort.steps,
        until=math.inf if effort.further else effort.until,
        start=None if recall is None else recall.memory.recalled(recall.places[samples], targets),
    )
    if recall is not None:
        recall.memory.keep(recall.places[samples], targets, chosen)
    return gaps.with_pairs(samples, targets, better, ball.eps[samples], bounds.norm)


def refined_radii(
    bounds: LinearBounds,
    x: Tensor,
    y: Tensor,
    known: Tensor,
    *,
    steps: int = 20,
    coupled: bool = True,
    who: Tensor | None = None,
    limit: Deadline | None = None,
) -> Tensor:
    """Radii (B,) at least as long as those ``known``: what was tried beyond them and proved, until the ``limit``.

    First with slopes and couplings alone, then with narrower limits of late layers; each ascent begins where the one on
    the ball before ended.
    """
    proved = known.clone()
    try:
        with limit or nullcontext():
            return _longer(bounds, x, y, proved, steps, coupled, who)
    except TimeUp:
        if limit is None or not limit.passed:
            raise
    return proved


def _longer(
    bounds: LinearBounds, x: Tensor, y: Tensor, proved: Tensor, steps: int, coupled: bool, who: Tensor | None
) -> Tensor:
    """The radii; whatever is proved on the way is at once in ``proved``."""
    known = proved.clone()
    trials = _MORE if bounds.cost(x.device) <= _CHEAP else _TRIALS
    memory = SlopeMemory(len(x), bounds.graph.classes)
    for sharp in (False, True):
        couplings = BallCouplings.of(bounds) if coupled else None
        effort = Effort(couplings, steps, until=0.0, sharp=sharp, further=True)

        def reach(radius: Tensor, index: Tensor, effort: Effort = effort) -> Reach:
            gaps = refined_gaps(
                bounds,
                x[index],
                y[index],
                radius,
                effort,
                who=taken(who, index),
                memory=memory,
                places=index,
            )
            found = gaps.reach(radius)
            proved[index] = torch.maximum(proved[index], found.proved)
            return found

        start = torch.where(known.isfinite(), (_THEN if sharp else _FIRST) * known, 0.0)
        known = torch.maximum(known, largest_radius(reach, guess=start, rtol=_RTOL, steps=trials))
    return known
