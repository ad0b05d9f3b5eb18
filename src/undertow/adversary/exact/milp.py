"""The exact L∞ or L1 radius of a two-layer network as a mixed-integer linear program, solved by HiGHS."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from undertow.adversary.exact.adversarial_cap import cap_limits
from undertow.adversary.exact.two_layer_gaps import Array, ExactDistance, Gap

__all__ = ["milp_distance"]

_RTOL = 1e-9


def milp_distance(
    gap: Gap, *, norm: float, room: tuple[Array, Array] | None, best: float, deadline: float
) -> ExactDistance:
    """min t with ‖δ‖ ≤ t ≤ ``best``, g(δ) ≤ 0 and δ within ``room``; ``best`` where nothing is closer.

    Variables δ, e, v, z, t, where |δ_i| ≤ t for L∞ (without e), and |δ_i| ≤ e_i, Σe_i ≤ t for L1; v_j stands for
    max(h_j, s h_j) and l_j ≤ h_j ≤ u_j. With a_j > 0, v_j ≥ h_j and v_j ≥ s h_j suffice. With a_j < 0, the binary
    z_j chooses the piece that bounds v_j from above: v_j ≤ h_j − (1 − z_j)(1 − s) l_j and
    v_j ≤ s h_j + z_j (1 − s) u_j.

    The solver's tolerances let z be 10⁻⁶ off a whole number; the linear program of the pieces that it chose is
    therefore solved once more, and its vertex is accurate to rounding.
    """
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        return ExactDistance(0.0, best, "time-limit")
    limits = cap_limits(gap, best, norm)
    if limits is None:
        return ExactDistance(best, best, "exact")
    program = _Program(gap, norm, room, best, limits)
    # HiGHS writes to standard output when its presolve has to repair a solution, and gains nothing from it here.
    result = program.solve(time_limit=min(seconds, 1e9), mip_rel_gap=_RTOL, presolve=False)
    if result.status == 2:  # infeasible: nothing closer
        return ExactDistance(best, best, "exact")
    if result.x is None:
        bound = 0.0 if result.mip_dual_bound is None else max(0.0, float(result.mip_dual_bound))
        return ExactDistance(bound, best, "time-limit")
    polished = program.solve(pieces=program.pieces(result.x))
    x = polished.x if polished.status == 0 else result.x
    delta = x[: gap.weight.shape[1]]
    found = float(np.abs(delta).max() if norm == math.inf else np.abs(delta).sum())
    if result.status == 0:
        return ExactDistance(found, found, "exact", delta)
    bound = 0.0 if result.mip_dual_bound is None else max(0.0, float(result.mip_dual_bound))
    return ExactDistance(min(bound, found), found, "time-limit", delta)


class _Program:
    """Columns δ, e, v, z, t."""

    def __init__(
        self,
        gap: Gap,
        norm: float,
        room: tuple[Array, Array] | None,
        best: float,
        limits: tuple[Array, Array],
    ) -> None:
        self.gap = gap
        lower, upper = limits
        self.concave = gap.head < 0
        # of these the sign is known, and with it z
        self.positive = (self.concave & (lower >= 0)).astype(float)
        self.undecided = (self.concave & (lower < 0) & (upper > 0)).astype(float)
        self.inputs, self.neurons = gap.weight.shape[1], len(gap.head)
        self.parts = self.inputs if norm == 1 else 0  # how many e there are
        low, high = np.full(self.inputs, -best), np.full(self.inputs, best)
        if room is not None:
            low, high = np.maximum(low, room[0]), np.minimum(high, room[1])
        span = np.maximum(np.abs(lower), np.abs(upper))
        e = np.zeros(self.parts)
        self.least = np.concatenate([low, e, -span, self.positive, [0.0]])
        self.most = np.concatenate([high, e + best, span, self.positive + self.undecided, [best]])
        self.rows = [*self._pieces(lower, upper), *self._lengths(), self._decision()]

    def solve(self, *, pieces: Array | None = None, **options: Any) -> Any:
        """With ``pieces`` z is given, and what is left is a linear program."""
        least, most, whole = self.least.copy(), self.most.copy(), np.zeros(len(self.least))
        where = self._where()
        if pieces is None:
            whole[where] = self.undecided
        else:
            least[where] = most[where] = pieces
        cost = np.append(np.zeros(len(least) - 1), 1.0)
        return milp(
            cost, integrality=whole, bounds=Bounds(least, most), constraints=self.rows, options=options
        )

    def pieces(self, x: Array) -> Array:
        """The piece of every concave term that is the larger one at the solution."""
        h = self.gap.hidden + self.gap.weight @ x[: self.inputs]
        return np.where(self.undecided > 0, (h > 0).astype(float), self.positive)

    def _where(self) -> slice:
        start = self.inputs + self.parts + self.neurons
        return slice(start, start + self.neurons)

    def _columns(self, rows: int) -> dict[str, Array]:
        """Zeros for every block of columns, to be filled in and put side by side."""
        sizes = (self.inputs, self.parts, self.neurons, self.neurons, 1)
        return {name: np.zeros((rows, size)) for name, size in zip("devzt", sizes, strict=True)}

    def _pieces(self, lower: Array, upper: Array) -> list[LinearConstraint]:
        gap, rows = self.gap, []
        below = np.where(self.concave, (1 - gap.slope) * np.maximum(-lower, 0), 0.0)
        above = np.where(self.concave, (1 - gap.slope) * np.maximum(upper, 0), 0.0)
        # v − h + room·z, and v − s·h − room·z
        for slope, big, offset in ((1.0, np.diag(below), below), (gap.slope, -np.diag(above), 0 * above)):
            parts = self._columns(self.neurons)
            parts["d"], parts["v"], parts["z"] = -slope * gap.weight, np.eye(self.neurons), big
            rows.append(_sided(_beside(parts), slope * gap.hidden, slope * gap.hidden + offset, self.concave))
        return rows

    def _lengths(self) -> list[LinearConstraint]:
        """|δ_i| ≤ t, or |δ_i| ≤ e_i and Σe_i ≤ t."""
        rows, eye = [], np.eye(self.inputs)
        for sign in (1.0, -1.0):
            columns = self._columns(self.inputs)
            columns["d"] = sign * eye
            columns["e" if self.parts else "t"] = -eye if self.parts else -np.ones((self.inputs, 1))
            rows.append(LinearConstraint(_beside(columns), -math.inf, 0))
        if self.parts:
            columns = self._columns(1)
            columns["e"], columns["t"] = np.ones((1, self.inputs)), -np.ones((1, 1))
            rows.append(LinearConstraint(_beside(columns), -math.inf, 0))
        return rows

    def _decision(self) -> LinearConstraint:
        """g(δ) ≤ 0, of which no coefficient is larger than 1."""
        gap, columns = self.gap, self._columns(1)
        largest = max(1.0, float(np.abs(np.concatenate([gap.normal, gap.head])).max()))
        columns["d"], columns["v"] = gap.normal[None] / largest, gap.head[None] / largest
        most = float(gap.head @ gap.act(gap.hidden)) - gap.level
        return LinearConstraint(_beside(columns), -math.inf, most / largest)


def _beside(parts: dict[str, Array]) -> Array:
    return np.hstack(list(parts.values()))


def _sided(rows: Array, least: Array, most: Array, concave: NDArray[np.bool_]) -> LinearConstraint:
    """rows ≥ least for convex terms, rows ≤ most for concave ones."""
    return LinearConstraint(rows, np.where(concave, -math.inf, least), np.where(concave, most, math.inf))
