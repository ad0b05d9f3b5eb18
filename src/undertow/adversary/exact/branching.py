"""Exact robust radii of narrow two-layer networks, with an honest status where time ran out.

For label y and target t the gap g(δ) = s_y − s_t is Σ_j a_j max(h_j, s h_j) + c with h affine in δ. Terms
with a_j > 0 are convex. Terms with a_j < 0 are concave, the minimum of two linear pieces, so {g ≤ 0} is a
union of convex sets, one for each choice of pieces: only these neurons need branching, and of them only
those whose h_j can change sign within the radius of the best adversarial example known.

Solvers see lengths in units of that radius and gaps in units of g(0), so that their tolerances are relative ones.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from undertow.adversary.exact.adversarial_cap import cap_limits, chord_line
from undertow.adversary.exact.two_layer_gaps import Array, ExactDistance, Gap, TwoLayer, dual_norms

__all__ = ["exact_distance", "l2_distance", "least_distance"]

_TOLERANCE = 1e-10  # relative, on the radius and on the gap
_LARGE = 1e6  # times the distance to the furthest kink: where nothing is found within it, the search gives up
_GROWTH = 4.0

Room = tuple[Array, Array]
"""The least and the largest perturbation of every coordinate that stays in the box."""


def exact_distance(
    net: TwoLayer,
    x: Array,
    label: int,
    *,
    norm: float,
    upper: float,
    box: tuple[float, float] | None,
    seconds: float,
) -> ExactDistance:
    """The distance from x to the nearest point that is not classified as ``label``.

    ``upper`` is the norm of a known adversarial perturbation, where the search begins; inf when none is known.
    It is not believed: where nothing is found within it, larger balls are searched.
    """
    deadline, x = time.monotonic() + seconds, x.reshape(-1)
    gaps = [net.gap(x, label, target) for target in range(len(net.shift)) if target != label]
    if any(gap.level <= 0 for gap in gaps):
        return ExactDistance(0.0, 0.0, "exact", np.zeros_like(x))
    # the closest boundary first: a smaller ball leaves less to decide for the others
    gaps.sort(key=lambda gap: _linearised(gap, norm))
    room = None if box is None else (np.minimum(box[0] - x, 0), np.maximum(box[1] - x, 0))
    ball = 0.0
    for ball in _balls(gaps, norm, upper, room):
        found = _nearest(gaps, norm, ball, room, deadline)
        if found.delta is not None and found.status == "exact" and found.upper < 0.5 * ball:
            # numbers are about 1 only in a ball about as large as the radius
            found = _nearest(gaps, norm, found.upper * (1 + 1e-6), room, deadline)
        if found.delta is not None or found.status != "exact":
            return found if found.delta is not None else ExactDistance(found.lower, upper, found.status)
    if room is not None:
        return ExactDistance(math.inf, math.inf, "exact")  # that was the whole box
    return ExactDistance(ball, math.inf, "none-found")  # a very large ball is still not everywhere


def _balls(gaps: Sequence[Gap], norm: float, upper: float, room: Room | None) -> Iterator[float]:
    """Radii that grow from the example known, or from where a linear network would have one, to the largest."""
    guess = _linearised(gaps[0], norm)
    kinks = [
        np.abs(gap.hidden)[reach > 0] / reach[reach > 0]
        for gap in gaps
        for reach in [dual_norms(gap.weight, norm)]
    ]
    furthest = max((float(kink.max()) for kink in kinks if len(kink)), default=0.0)
    start = guess if math.isfinite(guess) else furthest
    radius = upper * (1 + 1e-6) if math.isfinite(upper) and upper > 0 else start
    if room is not None:
        largest = float(np.linalg.norm(np.maximum(-room[0], room[1]), norm))
    else:
        largest = _LARGE * max(radius, furthest)
    while 0 < radius < largest:
        yield radius
        radius *= _GROWTH
    if largest > 0:
        yield largest


def _nearest(
    gaps: Sequence[Gap], norm: float, ball: float, room: Room | None, deadline: float
) -> ExactDistance:
    """The nearest zero of any of the gaps within the ball; without a ``delta`` where there is none."""
    best, lowest, status, delta = ball, math.inf, "exact", None
    for gap in gaps:
        local = gap.within(best, norm)
        inside = None if room is None else (room[0] / best, room[1] / best)
        if norm == 2:
            found = l2_distance(local, room=inside, best=1.0, deadline=deadline)
        else:
            from undertow.adversary.exact.milp import milp_distance  # scipy.optimize, as below

            found = milp_distance(local, norm=norm, room=inside, best=1.0, deadline=deadline)
        lowest = min(lowest, found.lower * best)
        status = status if found.status == "exact" else found.status
        if found.delta is not None:
            best, delta = found.upper * best, found.delta * best
    return ExactDistance(best if status == "exact" else min(lowest, best), best, status, delta)


def l2_distance(gap: Gap, *, room: Room | None, best: float, deadline: float) -> ExactDistance:
    """min ‖δ‖₂ < ``best`` with g(δ) ≤ 0 by branch and bound, best bound first; ``best`` where nothing is closer.

    A node fixes the pieces of some concave terms; the free ones are replaced by the chord that bounds them
    from below. Each node is a convex program, solved by cutting planes and least-distance programming.
    """
    limits = cap_limits(gap, best, 2.0)
    if limits is None:
        return ExactDistance(best, best, "exact")
    lower, upper = limits
    pieces = np.full(len(gap.head), math.nan)  # the slope chosen for each concave term; NaN: still free
    concave = gap.head < 0
    pieces[concave & (lower >= 0)], pieces[concave & (upper <= 0)] = 1.0, gap.slope
    order = 0
    root = _Node(*_relaxed(gap, pieces, lower, upper, room, best), order, pieces)
    heap = [root] if math.isfinite(root.bound) else []
    while heap:
        if time.monotonic() > deadline:
            return ExactDistance(min(heap[0].bound, best), best, "time-limit")
        node = heapq.heappop(heap)
        h = gap.hidden + gap.weight @ node.delta
        loss = _chord(h, lower, upper, gap.slope) - gap.act(h)
        slack = np.where(concave & np.isnan(node.pieces), -gap.head * loss, -1.0)
        if not len(slack) or slack.max() <= _tolerance(gap, h):
            # The relaxation is tight at its solution, which therefore is adversarial; the others have larger bounds.
            return ExactDistance(node.bound, node.bound, "exact", node.delta)
        branch = int(slack.argmax())
        for slope in (1.0, gap.slope):
            chosen = node.pieces.copy()
            chosen[branch] = slope
            order += 1
            child = _Node(*_relaxed(gap, chosen, lower, upper, room, best), order, chosen)
            if child.bound < best:
                heapq.heappush(heap, child)
    return ExactDistance(best, best, "exact")


@dataclass(order=True)
class _Node:
    bound: float
    delta: Array = field(compare=False)
    order: int
    pieces: Array = field(compare=False)


def _relaxed(
    gap: Gap, pieces: Array, lower: Array, upper: Array, room: Room | None, ceiling: float
) -> tuple[float, Array]:
    """min ‖δ‖₂ with relaxed g(δ) ≤ 0 and δ within the room: (inf, 0) when that exceeds the ceiling.

    Each cut is one linear piece of the convex function, so finitely many are enough.
    """
    concave = gap.head < 0
    chord, intercept = chord_line(lower, upper, gap.slope)
    free = concave & np.isnan(pieces)
    slopes = np.where(free, chord, np.nan_to_num(pieces))
    constant = gap.level - float(gap.head @ gap.act(gap.hidden)) + float(gap.head[free] @ intercept[free])
    delta, rows, sides = np.zeros(gap.weight.shape[1]), [], []
    for _ in range(500):
        h = gap.hidden + gap.weight @ delta
        active = np.where(concave, slopes, np.where(h > 0, 1.0, gap.slope))
        value = constant + float(gap.normal @ delta) + float(gap.head @ (active * h))
        outside = _outside(delta, room)
        if value <= _tolerance(gap, h) and not outside:
            return float(np.linalg.norm(delta)), delta
        if value > _tolerance(gap, h):
            normal = gap.normal + (gap.head * active) @ gap.weight
            length = float(np.linalg.norm(normal))
            if length <= 1e-14 * (np.abs(gap.head).sum() + np.linalg.norm(gap.normal)):
                return math.inf, delta
            rows.append(normal / length)
            sides.append((float(normal @ delta) - value) / length)
        for index in outside:
            assert room is not None
            sign = 1.0 if delta[index] > room[1][index] else -1.0
            rows.append(sign * np.eye(1, len(delta), index)[0])
            sides.append(float(room[1][index] if sign > 0 else -room[0][index]))
        solution = least_distance(np.array(rows), np.array(sides))
        if solution is None or np.linalg.norm(solution) >= ceiling:
            return math.inf, delta
        delta = solution
    return float(np.linalg.norm(delta)), delta  # still a valid lower bound: the cuts contain the feasible set


def _tolerance(gap: Gap, h: Array) -> float:
    """What counts as zero for a gap that is 1 at the sample: not less than the rounding of its terms."""
    return _TOLERANCE + 1e-15 * float(np.abs(gap.head) @ np.abs(h))


def least_distance(rows: Array, sides: Array) -> Array | None:
    """argmin ‖δ‖₂ with rows·δ ≤ sides; None when there is none (Lawson & Hanson 1974, chapter 23).

    >>> least_distance(np.array([[-1.0, 0.0]]), np.array([-2.0]))  # δ₁ ≥ 2
    array([2., 0.])
    """
    from scipy.optimize import nnls  # a quarter of a second, and few who import this module solve anything

    matrix = np.vstack([-rows.T, -sides])
    aim = np.zeros(len(matrix))
    aim[-1] = 1.0
    weights, residual = nnls(matrix, aim)
    if residual <= 1e-10:
        return None
    rest = matrix @ weights - aim
    delta: Array = -rest[:-1] / rest[-1]
    return delta


def _outside(delta: Array, room: Room | None) -> list[int]:
    if room is None:
        return []
    return [int(i) for i in np.flatnonzero((delta < room[0] - 1e-12) | (delta > room[1] + 1e-12))]


def _chord(h: Array, lower: Array, upper: Array, slope: float) -> Array:
    chord, intercept = chord_line(lower, upper, slope)
    return np.asarray(chord * h + intercept)


def _linearised(gap: Gap, norm: float) -> float:
    """The radius at which the gap would vanish if the network were linear; inf where it is flat."""
    normal = gap.normal + (gap.head * np.where(gap.hidden > 0, 1.0, gap.slope)) @ gap.weight
    dual = float(dual_norms(normal, norm))
    return gap.level / dual if dual > 0 else math.inf
