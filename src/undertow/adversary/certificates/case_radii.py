"""Radii of narrow networks, proved case by case: a neuron is on one side of its kink or on the other.

In a case the limits of the split neurons end at their kinks, and what follows from that for later layers is computed
anew. `case_ascent` proves a radius for every case; that of the sample is the smallest. The case with the smallest
radius is split further, at the neuron that costs most: at the point of the ball where the linear bound is smallest,

    row·scores(x*) − bound(x*) = Σ_i c_i f(z_i) − (g_i z_i + h_i),

one term ≥ 0 for every neuron, so that its largest term is where a bound can gain most. Where the sum is 0 the bound is
attained, and nothing is left to gain.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.case_ascent import CaseSlopes, ascended_radii
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.operations import AffineMap, CurveOf, InputValue
from undertow.adversary.certificates.score_gaps import difference_rows
from undertow.adversary.geometry import furthest

__all__ = ["kinked_neurons", "radii_by_cases"]

_STEPS = 80
_SPLITS = 32  # cases of one sample that are split at a time, those with the smallest radii
_ROUNDS = 24
_ENOUGH = 0.995  # of the ball's radius: beyond it a case is not split


def kinked_neurons(bounds: LinearBounds) -> int:
    """How many neurons have one kink; 0 where there is another kind of bend."""
    bent = [op for op in bounds.graph.operations if not isinstance(op, InputValue | AffineMap)]
    if any(not isinstance(operation, CurveOf) or not operation.curve.homogeneous for operation in bent):
        return 0
    return sum(math.prod(operation.shape) for operation in bent)


@dataclass(frozen=True, eq=False)
class _Cases:
    """Balls with the limits of each case, its row (C, 1, *S), its sample, the radius proved, and the slopes of it."""

    ball: BallBounds
    rows: Tensor
    sample: Tensor
    radius: Tensor
    slopes: CaseSlopes | None = None

    def taken(self, index: Tensor) -> _Cases:
        slopes = None if self.slopes is None else self.slopes.taken(index)
        return _Cases(
            self.ball.taken(index), self.rows[index], self.sample[index], self.radius[index], slopes
        )


def radii_by_cases(
    bounds: LinearBounds,
    x: Tensor,
    y: Tensor,
    reach: Tensor,
    *,
    deadline: float = math.inf,
    who: Tensor | None = None,
) -> Tensor:
    """Proved radii (B,), at most ``reach`` (B,), of networks whose only bends are kinks at zero.

    The closer ``reach`` is to the radius, the fewer neurons can be on either side: 1.01 times the length of a known
    adversarial example is a good choice. After the ``deadline`` (of `time.monotonic`) nothing is split any more.

    >>> from undertow.adversary.certificates.network_graph import read_graph
    >>> from undertow.adversary.classifier import Classifier
    >>> net = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1)).double()
    >>> values = [[1.0], [-1.0]], [0.0, 0.0], [[-1.0, -1.0]], [1.0]
    >>> for weight, value in zip(net.requires_grad_(False).parameters(), values):
    ...     _ = weight.copy_(torch.tensor(value))      # 1 − |x|, positive up to 1
    >>> x, y, reach = torch.tensor([[0.1]]).double(), torch.tensor([1]), torch.tensor([1.5]).double()
    >>> graph = read_graph(Classifier(net), net, x)
    >>> [round(float(radius), 2) for radius in radii_by_cases(LinearBounds(graph, 2.0), x, y, reach)]
    [0.9]
    """
    assert bounds.box is None, "a radius by division is that of the whole ball"
    cases = _first_cases(bounds, x, y, reach, who)
    found = reach.clone()
    for turn in range(_ROUNDS):
        if len(cases.rows) == 0:
            break
        enough = _ENOUGH * reach[cases.sample]
        radius, slopes = ascended_radii(
            bounds, cases.ball, cases.rows, start=cases.slopes, enough=enough, steps=_STEPS
        )
        radius = torch.maximum(radius, cases.radius)
        cost = torch.cat(_costs(bounds, cases, slopes, radius), 1)
        split = (radius < enough) & (cost.amax(1) > 0)
        if turn + 1 == _ROUNDS or time.monotonic() > deadline:
            split = torch.zeros_like(split)
        split &= _rank(torch.where(split, radius, math.inf), cases.sample) < _SPLITS
        found.scatter_reduce_(0, cases.sample[~split], radius[~split], "amin")
        split &= radius < found[cases.sample]  # of a sample whose radius is no longer, nothing is gained
        some = split.nonzero().squeeze(1)
        if len(some) == 0:
            break
        cases = _Cases(cases.ball, cases.rows, cases.sample, radius, slopes).taken(some)
        cases = _both_sides(bounds, cases, cost[some].argmax(1))
    return found.clamp(min=0)


def _first_cases(bounds: LinearBounds, x: Tensor, y: Tensor, reach: Tensor, who: Tensor | None) -> _Cases:
    """One case for each sample and class that linear bounds alone leave open."""
    graph = bounds.graph
    ball = bounds.ball(x, reach, who=who)
    rows = difference_rows(y, graph.classes).reshape(
        len(x), graph.classes, *graph.operations[graph.output].shape
    )
    lower = bounds.backward(ball, rows, graph.output).lower
    sample, target = (lower.scatter(1, y.unsqueeze(1), math.inf) <= 0).nonzero(as_tuple=True)
    nothing = reach.new_full((len(sample),), -math.inf)
    return _Cases(ball.taken(sample), rows[sample, target].unsqueeze(1), sample, nothing)


def _rank(radius: Tensor, sample: Tensor) -> Tensor:
    """Of every case, how many of the same sample have a smaller radius."""
    smaller = (radius.unsqueeze(0) < radius.unsqueeze(1)) & (sample.unsqueeze(0) == sample.unsqueeze(1))
    return smaller.sum(1)


def _costs(bounds: LinearBounds, cases: _Cases, slopes: CaseSlopes, radius: Tensor) -> list[Tensor]:
    """For each activation, what every open neuron costs where the bound is smallest: (C, n), 0 for the others."""
    ball = cases.ball
    step = radius.clamp(min=0).minimum(ball.eps).unsqueeze(1)
    point = ball.x.flatten(1) - step * furthest(slopes.rows, bounds.norm)
    values = bounds.graph.values(point, ball.batch)
    chosen = ball.relaxed_by({**slopes.relaxations})
    met, found = bounds.rows_met(chosen, cases.rows), []
    for at, operation in _kinks(bounds):
        low, high = ball.limits[operation.inputs[0]]
        cost = torch.zeros_like(low)
        if at in met:
            cost = slopes.relaxations[at].costs(met[at], values[operation.inputs[0]]).squeeze(1)
        found.append(torch.where((low < 0) & (high > 0), cost.clamp(min=1e-300), 0.0).flatten(1))
    return found


def _kinks(bounds: LinearBounds) -> list[tuple[int, CurveOf]]:
    return [(at, op) for at, op in enumerate(bounds.graph.operations) if isinstance(op, CurveOf)]


def _both_sides(bounds: LinearBounds, cases: _Cases, neuron: Tensor) -> _Cases:
    """Each case twice, with its neuron on either side of its kink; without those that are empty."""
    count, first = len(neuron), 0
    both = cases.taken(torch.arange(count, device=neuron.device).repeat(2))
    above = torch.arange(2 * count, device=neuron.device) >= count
    known = {}
    for _, operation in _kinks(bounds):
        low, high = both.ball.limits[operation.inputs[0]]
        place = neuron.repeat(2) - first
        here = place.unsqueeze(1) == torch.arange(math.prod(operation.shape), device=place.device)
        here = here.reshape(low.shape)
        side = above.reshape(-1, *[1] * (low.ndim - 1))
        low = torch.where(here & side, low.clamp(min=0), low)
        known[operation.inputs[0]] = low, torch.where(here & ~side, high.clamp(max=0), high)
        first += math.prod(operation.shape)
    who = None if both.ball.batch is None else both.ball.batch.who
    ball = bounds.ball(both.ball.x, both.ball.eps, who=who, known=known)
    empty = torch.zeros_like(above)
    for low, high in ball.limits.values():
        empty |= (low > high).flatten(1).any(1)
    kept = _Cases(ball, both.rows, both.sample, both.radius, both.slopes)
    return kept.taken((~empty).nonzero().squeeze(1))
