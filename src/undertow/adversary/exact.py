"""Exact robust radii of narrow two-layer networks, with an honest status where time ran out.

For label y and target t the gap g(δ) = s_y − s_t is Σ_j a_j max(h_j, s h_j) + c with h affine in δ. Terms
with a_j > 0 are convex. Terms with a_j < 0 are concave, the minimum of two linear pieces, so {g ≤ 0} is a
union of convex sets, one for each choice of pieces: only these neurons need branching, and of them only
those whose h_j can change sign within the radius of the best adversarial example known.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import nnls

from undertow.adversary.milp import linf_distance
from undertow.adversary.two_layer import Array, Distance, Gap, TwoLayer

__all__ = ["exact_distance", "l2_distance", "least_distance"]

_TOLERANCE = 1e-9  # relative, on the radius and on the gap


def exact_distance(
    net: TwoLayer,
    x: Array,
    label: int,
    *,
    norm: float,
    upper: float,
    box: tuple[float, float] | None,
    seconds: float,
) -> Distance:
    """The distance from x to the nearest point that is not classified as ``label``.

    ``upper`` is the norm of a known adversarial perturbation; inf when none is known.
    """
    deadline, ceiling = time.monotonic() + seconds, upper
    if not math.isfinite(upper):
        # without an adversarial example the search needs some ball: the whole box, or one far larger than x
        reach = np.abs(x).max() if box is None else max(np.abs(x - box[0]).max(), np.abs(box[1] - x).max())
        scale = 1.0 if norm == math.inf else math.sqrt(len(x))
        ceiling = float((1e3 * (1 + reach) if box is None else reach) * scale)
    solve = linf_distance if norm == math.inf else l2_distance
    lowest, best, status = math.inf, ceiling, "exact"
    targets = [target for target in range(len(net.shift)) if target != label]
    # the closest boundary first: a smaller ceiling prunes the others
    for gap in sorted((net.gap(x, label, target) for target in targets), key=_steepness(norm)):
        if gap(np.zeros_like(x)) <= 0:
            return Distance(0.0, 0.0, "exact")
        found = solve(gap, x, ceiling=best, box=box, deadline=deadline)
        best, lowest = min(best, found.upper), min(lowest, found.lower)
        status = status if found.status == "exact" else found.status
    if status == "exact":
        value = best if best < ceiling or math.isfinite(upper) else math.inf
        if math.isinf(value) and box is None:
            return Distance(ceiling, math.inf, "none-found")  # a very large ball is still not everywhere
        return Distance(value, value, status)
    return Distance(min(lowest, best), best if best < ceiling else upper, status)


def l2_distance(
    gap: Gap, x: Array, *, ceiling: float, box: tuple[float, float] | None, deadline: float
) -> Distance:
    """min ‖δ‖₂ with g(δ) ≤ 0 by branch and bound, best bound first; ``ceiling`` where nothing is closer.

    A node fixes the pieces of some concave terms; the free ones are replaced by the chord that bounds them
    from below. Each node is a convex program, solved by cutting planes and least-distance programming.
    """
    lower, upper = gap.limits(ceiling, 2.0)
    pieces = np.full(len(gap.head), math.nan)  # the slope chosen for each concave term; NaN: still free
    concave = gap.head < 0
    pieces[concave & (lower >= 0)], pieces[concave & (upper <= 0)] = 1.0, gap.slope
    best, order = ceiling, 0
    root = _Node(*_relaxed(gap, pieces, lower, upper, x, box, ceiling), order, pieces)
    heap = [root] if math.isfinite(root.bound) else []
    while heap:
        if time.monotonic() > deadline:
            return Distance(min(heap[0].bound, best), best, "time-limit")
        node = heapq.heappop(heap)
        if node.bound >= best * (1 - _TOLERANCE):
            break
        h = gap.hidden + gap.weight @ node.delta
        loss = _chord(h, lower, upper, gap.slope) - np.maximum(h, gap.slope * h)
        slack = np.where(concave & np.isnan(node.pieces), -gap.head * loss, -1.0)
        if slack.max() <= _TOLERANCE * (1 + np.abs(gap.head) @ np.abs(h)):
            best = node.bound  # the relaxation is tight at its solution, which therefore is adversarial
            break  # and every other node has a larger bound
        branch = int(slack.argmax())
        for slope in (1.0, gap.slope):
            chosen = node.pieces.copy()
            chosen[branch] = slope
            order += 1
            child = _Node(*_relaxed(gap, chosen, lower, upper, x, box, best), order, chosen)
            if child.bound < best:
                heapq.heappush(heap, child)
    return Distance(best, best, "exact")


@dataclass(order=True)
class _Node:
    bound: float
    delta: Array = field(compare=False)
    order: int
    pieces: Array = field(compare=False)


def _relaxed(
    gap: Gap,
    pieces: Array,
    lower: Array,
    upper: Array,
    x: Array,
    box: tuple[float, float] | None,
    ceiling: float,
) -> tuple[float, Array]:
    """min ‖δ‖₂ with relaxed g(δ) ≤ 0 and x + δ in the box: (inf, 0) when that exceeds the ceiling.

    Each cut is one linear piece of the convex function, so finitely many are enough.
    """
    concave = gap.head < 0
    chord, intercept = _chord_line(lower, upper, gap.slope)
    free = concave & np.isnan(pieces)
    slopes = np.where(free, chord, np.nan_to_num(pieces))
    constant = gap.shift + float(gap.head[free] @ intercept[free])
    delta, rows, sides = np.zeros(gap.weight.shape[1]), [], []
    for _ in range(500):
        h = gap.hidden + gap.weight @ delta
        active = np.where(concave, slopes, np.where(h > 0, 1.0, gap.slope))
        value = constant + float(gap.head @ (active * h))
        scale = 1 + float(np.abs(gap.head) @ np.abs(h))
        outside = _outside(x + delta, box)
        if value <= _TOLERANCE * scale and not outside:
            return float(np.linalg.norm(delta)), delta
        if value > _TOLERANCE * scale:
            normal = (gap.head * active) @ gap.weight
            length = float(np.linalg.norm(normal))
            if length <= 1e-14 * scale:
                return math.inf, delta
            rows.append(normal / length)
            sides.append((float(normal @ delta) - value) / length)
        for index in outside:
            assert box is not None
            sign = 1.0 if x[index] + delta[index] > box[1] else -1.0
            rows.append(sign * np.eye(1, len(x), index)[0])
            sides.append(float(box[1] - x[index] if sign > 0 else x[index] - box[0]))
        solution = least_distance(np.array(rows), np.array(sides))
        if solution is None or np.linalg.norm(solution) >= ceiling:
            return math.inf, delta
        delta = solution
    return float(np.linalg.norm(delta)), delta  # still a valid lower bound: the cuts contain the feasible set


def least_distance(rows: Array, sides: Array) -> Array | None:
    """argmin ‖δ‖₂ with rows·δ ≤ sides; None when there is none (Lawson & Hanson 1974, chapter 23).

    >>> least_distance(np.array([[-1.0, 0.0]]), np.array([-2.0]))  # δ₁ ≥ 2
    array([2., 0.])
    """
    matrix = np.vstack([-rows.T, -sides])
    aim = np.zeros(len(matrix))
    aim[-1] = 1.0
    weights, residual = nnls(matrix, aim)
    if residual <= 1e-10:
        return None
    rest = matrix @ weights - aim
    delta: Array = -rest[:-1] / rest[-1]
    return delta


def _outside(point: Array, box: tuple[float, float] | None) -> list[int]:
    if box is None:
        return []
    return [int(i) for i in np.flatnonzero((point < box[0] - 1e-10) | (point > box[1] + 1e-10))]


def _chord_line(lower: Array, upper: Array, slope: float) -> tuple[Array, Array]:
    """Slope and intercept of the line through (l, act(l)) and (u, act(u))."""
    width = np.maximum(upper - lower, 1e-300)
    chord = np.where(lower >= 0, 1.0, np.where(upper <= 0, slope, (upper - slope * lower) / width))
    crossing = (lower < 0) & (upper > 0)
    return chord, np.where(crossing, -lower * (chord - slope), 0.0)


def _chord(h: Array, lower: Array, upper: Array, slope: float) -> Array:
    chord, intercept = _chord_line(lower, upper, slope)
    return np.asarray(chord * h + intercept)


def _steepness(norm: float) -> Callable[[Gap], float]:
    """The radius at which the gap would vanish if the network were linear."""

    def radius(gap: Gap) -> float:
        zero = np.zeros(gap.weight.shape[1])
        normal = (gap.head * np.where(gap.hidden > 0, 1.0, gap.slope)) @ gap.weight
        dual = np.abs(normal).sum() if norm == math.inf else np.linalg.norm(normal)
        return gap(zero) / max(float(dual), 1e-300)

    return radius
