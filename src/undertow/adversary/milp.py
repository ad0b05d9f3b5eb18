"""The exact L∞ radius of a two-layer network as a mixed-integer linear program, solved by HiGHS."""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from undertow.adversary.two_layer import Array, Distance, Gap

__all__ = ["linf_distance"]


def linf_distance(
    gap: Gap, x: Array, *, ceiling: float, box: tuple[float, float] | None, deadline: float
) -> Distance:
    """min t with |δ_i| ≤ t, g(δ) ≤ 0 and x + δ in the box; ``ceiling`` where nothing is closer.

    Variables δ, v, z, t, where v_j stands for max(h_j, s h_j) and l_j ≤ h_j ≤ u_j. With a_j > 0, v_j ≥ h_j
    and v_j ≥ s h_j suffice. With a_j < 0, the binary z_j chooses the piece that bounds v_j from above:
    v_j ≤ h_j − (1 − z_j)(1 − s) l_j and v_j ≤ s h_j + z_j (1 − s) u_j.
    """
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        return Distance(0.0, ceiling, "time-limit")
    lower, upper = gap.limits(ceiling, math.inf)
    concave = gap.head < 0
    undecided = concave & (lower < 0) & (upper > 0)
    inputs, neurons = gap.weight.shape[1], len(gap.head)
    span = np.abs(np.concatenate([lower, upper])).max()
    low, high = np.full(inputs, -ceiling), np.full(inputs, ceiling)
    if box is not None:
        low, high = np.maximum(low, box[0] - x), np.minimum(high, box[1] - x)
    positive = (concave & (lower >= 0)).astype(float)  # the sign of these is known, and with it z
    result = milp(
        np.append(np.zeros(inputs + 2 * neurons), 1.0),
        integrality=np.concatenate([np.zeros(inputs + neurons), undecided.astype(float), [0.0]]),
        bounds=Bounds(
            np.concatenate([low, np.full(neurons, -span), positive, [0.0]]),
            np.concatenate([high, np.full(neurons, span), positive + undecided, [ceiling]]),
        ),
        constraints=_constraints(gap, lower, upper),
        options={"time_limit": seconds, "mip_rel_gap": 1e-9},
    )
    if result.status == 2:  # infeasible: nothing closer than the ceiling
        return Distance(ceiling, ceiling, "exact")
    if result.status == 0:
        return Distance(float(result.fun), float(result.fun), "exact")
    bound = 0.0 if result.mip_dual_bound is None else max(0.0, float(result.mip_dual_bound))
    return Distance(bound, ceiling if result.x is None else float(result.fun), "time-limit")


def _constraints(gap: Gap, lower: Array, upper: Array) -> list[LinearConstraint]:
    """Rows over the columns δ, v, z, t."""
    neurons, inputs = gap.weight.shape
    concave, slope = gap.head < 0, gap.slope
    eye, column = np.eye(neurons), np.zeros((neurons, 1))
    room_below = np.where(concave, (1 - slope) * np.maximum(-lower, 0), 0.0)
    room_above = np.where(concave, (1 - slope) * np.maximum(upper, 0), 0.0)
    steep = np.hstack([-gap.weight, eye, np.diag(room_below), column])  # v − h + room·z
    flat = np.hstack([-slope * gap.weight, eye, -np.diag(room_above), column])  # v − s·h − room·z
    size = np.hstack([np.eye(inputs), np.zeros((inputs, 2 * neurons)), -np.ones((inputs, 1))])
    mirrored = size * np.append(-np.ones(inputs + 2 * neurons), 1.0)
    total = np.concatenate([np.zeros(inputs), gap.head, np.zeros(neurons + 1)])
    return [
        _sided(steep, gap.hidden, gap.hidden + room_below, concave),
        _sided(flat, slope * gap.hidden, slope * gap.hidden, concave),
        LinearConstraint(np.vstack([size, mirrored]), -math.inf, 0),  # |δ_i| ≤ t
        LinearConstraint(total[None], -math.inf, -gap.shift),  # g(δ) ≤ 0
    ]


def _sided(rows: Array, least: Array, most: Array, concave: NDArray[np.bool_]) -> LinearConstraint:
    """rows ≥ least for convex terms, rows ≤ most for concave ones."""
    return LinearConstraint(rows, np.where(concave, -math.inf, least), np.where(concave, most, math.inf))
