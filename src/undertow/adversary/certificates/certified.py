"""Certified radii: the largest ball on which linear bounds prove every score difference positive."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_minimum import Box
from undertow.adversary.certificates.bracket import Reach, largest_radius
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.member_batches import taken
from undertow.adversary.certificates.network_graph import NetworkGraph
from undertow.adversary.certificates.operations import AffineMap, CurveOf, InputValue
from undertow.adversary.certificates.row_budget import in_parts, row_entries
from undertow.adversary.certificates.score_gaps import ScoreGaps, difference_rows, joined_gaps
from undertow.adversary.geometry import furthest

__all__ = ["certified_radii", "gap_bounds", "linear_radii", "weakest_directions"]

Found = TypeVar("Found")

# To which a certified radius is searched for: where a trial is cheap, and elsewhere.
_RTOL, _COARSE = 1e-9, 1e-3
_CHEAP = 1e6  # multiplications


def gap_bounds(
    graph: NetworkGraph,
    x: Tensor,
    y: Tensor,
    eps: Tensor,
    norm: float,
    box: Box = None,
    *,
    who: Tensor | None = None,
) -> Tensor:
    """Lower bounds (B, k) of s_y − s_t over the ball of radius ε_i around x_i (within the box); +inf at t = y.

    Of several networks stacked, ``who`` says which one each sample is about.

    >>> from undertow.adversary.certificates.network_graph import read_graph
    >>> from undertow.adversary.classifier import Classifier
    >>> line = torch.nn.Linear(2, 2, bias=False).requires_grad_(False)
    >>> _ = line.weight.copy_(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
    >>> x, y, eps = torch.tensor([[1.0, 1.0]]), torch.tensor([1]), torch.tensor([1.0])
    >>> gap_bounds(read_graph(Classifier(line), line, x), x, y, eps, 2.0)  # 3 + 4 − 5, and a little less for rounding
    tensor([[2.0000,    inf]], dtype=torch.float64)
    """
    bounds = LinearBounds.of(graph, norm, box)
    return _linear_gaps(bounds, x, y, eps, who).lower


def weakest_directions(
    graph: NetworkGraph,
    x: Tensor,
    y: Tensor,
    eps: Tensor,
    norm: float,
    box: Box = None,
    *,
    who: Tensor | None = None,
) -> Tensor:
    """Directions of unit norm (B, d): x_i + ε_i·direction is where the smallest linear bound on the ball is smallest.

    The true score difference need not be small there. But unlike a gradient the bound knows of neurons that are off
    at x and can come on within the ball.
    """

    def weakest(gaps: ScoreGaps, rows: Tensor) -> Tensor:
        each = torch.arange(len(rows), device=rows.device)
        return -furthest(rows[each, gaps.lower.argmin(1)], norm)

    return torch.cat(_by_parts(LinearBounds.of(graph, norm, box), x, y, eps, who, weakest))


def _linear_gaps(bounds: LinearBounds, x: Tensor, y: Tensor, eps: Tensor, who: Tensor | None) -> ScoreGaps:
    """Bounds of all differences."""
    return joined_gaps(_by_parts(bounds, x, y, eps, who, lambda gaps, _: gaps))


def _by_parts(
    bounds: LinearBounds,
    x: Tensor,
    y: Tensor,
    eps: Tensor,
    who: Tensor | None,
    kept: Callable[[ScoreGaps, Tensor], Found],
) -> list[Found]:
    """What is kept of the bounds of some samples at a time and of the rows (b, k, d) of the functions behind them."""
    graph = bounds.graph
    classes, shape = graph.classes, graph.operations[graph.output].shape

    def work(part: Tensor) -> Found:
        ball, labels = bounds.ball(x[part], eps[part], who=taken(who, part)), y[part]
        rows = difference_rows(labels, classes).reshape(len(part), classes, *shape)
        found = bounds.backward(ball, rows, graph.output)
        return kept(ScoreGaps.of(found, labels, ball.eps, bounds.norm), found.rows)

    everyone = torch.arange(len(x), device=x.device)
    return in_parts(everyone, row_entries(x.device) // (bounds.widest * classes), work)


def certified_radii(
    graph: NetworkGraph,
    x: Tensor,
    y: Tensor,
    norm: float,
    box: Box = None,
    *,
    who: Tensor | None = None,
) -> Tensor:
    """Radii (B,) at which every score difference is proved positive; 0 for errors, inf where no ball is too large.

    The search begins where the differences would vanish if the network were linear,
    min_t (s_y − s_t)/‖∇(s_y − s_t)‖_dual: for a network without activations that is the answer, up to rounding.

    What holds on the whole ball holds on its part in the box, and with other limits other lines are chosen: of both
    proofs the better is kept.
    """
    free = linear_radii(LinearBounds.of(graph, norm), x.double(), y, who=who)
    if box is None:
        return free
    return torch.maximum(free, linear_radii(LinearBounds.of(graph, norm, box), x.double(), y, who=who))


def linear_radii(bounds: LinearBounds, x: Tensor, y: Tensor, *, who: Tensor | None = None) -> Tensor:
    """The same with the bounds that are given, in the box that they are in."""
    at_x = _linear_gaps(bounds, x, y, x.new_zeros(len(x)), who)
    level, guess = at_x.lower.amin(1), at_x.radii.amin(1)
    # Without a slope at x nothing changes up to the nearest kink; behind it something may.
    flat = (~guess.isfinite()).nonzero().squeeze(1)
    guess[flat] = 2 * _nearest_changes(bounds, x[flat], taken(who, flat))
    exact = bounds.graph.linear and bounds.box is None
    rtol = 1e-14 if exact else _RTOL if bounds.cost(x.device) <= _CHEAP else _COARSE

    def reach(radius: Tensor, index: Tensor) -> Reach:
        return _linear_gaps(bounds, x[index], y[index], radius, taken(who, index)).reach(radius)

    start = torch.where(guess.isfinite() & (level > 0), guess, 0.0)
    found = largest_radius(reach, guess=start, rtol=rtol)
    return torch.where(guess.isinf() & (level > 0), math.inf, found)  # a network that is constant


def _nearest_changes(bounds: LinearBounds, x: Tensor, who: Tensor | None) -> Tensor:
    """About how far (B,) it is from x to where the slope of a first activation changes; inf without any."""
    everyone = torch.arange(len(x), device=x.device)
    size = row_entries(x.device) // bounds.widest
    parts = in_parts(everyone, size, lambda part: _changes_near(bounds, x[part], taken(who, part)))
    return torch.cat([x.new_zeros(0), *parts])


def _changes_near(bounds: LinearBounds, x: Tensor, who: Tensor | None) -> Tensor:
    nearest = torch.full((len(x),), math.inf, dtype=torch.float64, device=x.device)
    furthest_away = torch.zeros_like(nearest)
    point = bounds.ball(x, torch.zeros_like(nearest), who=who)
    moving_at_all = False
    for operation in bounds.graph.operations:
        if isinstance(operation, InputValue | AffineMap):
            continue
        for index in operation.inputs:
            if index not in bounds.affine:
                moving_at_all = True
                continue
            reach = bounds.reach.of(index, point)
            curved = isinstance(operation, CurveOf) and not operation.curve.straight
            away = point.values[index].abs() + (1.0 if curved else 0.0)
            moving = (reach > 0) & (away > 0)
            distance = torch.where(moving, away / torch.where(reach > 0, reach, 1.0), math.inf).flatten(1)
            nearest = torch.minimum(nearest, distance.amin(1))
            known = torch.where(distance.isfinite(), distance, 0.0)
            furthest_away = torch.maximum(furthest_away, known.amax(1))
            moving_at_all = moving_at_all or bool((reach > 0).any())
    if not moving_at_all:
        return nearest
    scale = x.flatten(1).abs().amax(1)
    # A neuron that happens to be next to its kink does not say in what unit radii are: others do.
    nearest = nearest.maximum(1e-12 * torch.maximum(scale, furthest_away))
    # All neurons are at their kinks: any length will do, and is doubled or halved from there.
    return torch.where(nearest.isfinite(), nearest, torch.where(scale > 0, scale, 1.0))
