"""Non-negative least squares from a Gram matrix: an active set with one Cholesky factor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular

__all__ = ["NonnegativeResult", "nonnegative_least_squares"]

Array = NDArray[np.float64]
_INDEPENDENT = 1e-13  # the least squared distance of a unit column from the span of those in use


@dataclass(frozen=True, eq=False)
class NonnegativeResult:
    """λ ≥ 0, and how far its conditions of optimality are from holding."""

    value: Array
    violation: float
    """The largest cosine that a column makes with what is left over: 0 at the optimum."""
    steps: int
    converged: bool


def nonnegative_least_squares(
    gram: Array,
    products: Array,
    *,
    start: Array | None = None,
    rtol: float = 1e-10,
    max_steps: int | None = None,
) -> NonnegativeResult:
    """argmin over λ ≥ 0 of ½ λᵀKλ − bᵀλ, that is of ‖t − Gᵀλ‖ with K = GGᵀ and b = Gt (Lawson & Hanson 1974).

    Working with K (n, n) and not with G (n, P), P the number of parameters, is what makes large networks possible.
    Columns are scaled to length one first. The first active set is that of a few hundred steps of accelerated
    projected gradient descent, so that the active-set method has few changes left to make.

    Args:
        gram: K, symmetric and positive semidefinite; it may be singular.
        products: b.
        start: A λ ≥ 0 to begin with.
        rtol: Columns with a cosine below this to what is left over are taken to be orthogonal to it.
        max_steps: Changes of the active set, by default three for every column.

    >>> found = nonnegative_least_squares(np.eye(2), np.array([2.0, -1.0]))
    >>> found.value.tolist(), found.converged
    ([2.0, 0.0], True)
    """
    lengths = np.sqrt(np.maximum(np.diag(gram), 0.0))
    used = np.flatnonzero(lengths > 0)
    value = np.zeros(len(gram))
    if not len(used) or not np.any(products):
        return NonnegativeResult(value, 0.0, 0, True)
    scale = lengths[used]
    K = gram[np.ix_(used, used)] / np.outer(scale, scale)
    b = products[used] / scale
    size = float(np.abs(b).max())
    b = b / size
    begin = _descend(K, b) if start is None else start[used] * scale / size
    solved, violation, steps, converged = _active_set(K, b, begin, rtol, max_steps or 3 * len(used) + 10)
    value[used] = solved * size / scale
    return NonnegativeResult(value, violation, steps, converged)


def _descend(K: Array, b: Array, steps: int = 300) -> Array:
    """Accelerated projected gradient descent: which columns will be in use, roughly."""
    if len(b) < 50:
        return np.zeros(len(b))
    probe = np.ones(len(b))
    for _ in range(20):
        probe = K @ probe
        probe /= np.linalg.norm(probe)
    rate = 0.9 / float(probe @ (K @ probe))
    here = ahead = np.maximum(b, 0.0) * rate
    momentum = 1.0
    for _ in range(steps):
        there = np.maximum(ahead - rate * (K @ ahead - b), 0.0)
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        if (ahead - there) @ (there - here) > 0:  # it overshot: begin anew from here
            following = momentum = 1.0
        ahead = there + (momentum - 1) / following * (there - here)
        here, momentum = there, following
    return here


class _Factor:
    """The Cholesky factor of the columns in use, grown and shrunk one column at a time."""

    def __init__(self, K: Array) -> None:
        self._K = K
        self.columns: list[int] = []
        self._L = np.zeros((0, 0))

    def set(self, columns: list[int]) -> None:
        """Begin with these columns, without those that depend on others before them."""
        try:
            self._store(cholesky(self._K[np.ix_(columns, columns)], lower=True))
            self.columns = list(columns)
            if len(columns) and float(np.diag(self._lower()).min()) ** 2 > _INDEPENDENT:
                return
        except np.linalg.LinAlgError:
            pass
        self.columns = []
        for column in columns:
            self.add(column)

    def add(self, column: int) -> bool:
        """One column more, unless it depends on those in use."""
        count = len(self.columns)
        row = solve_triangular(self._lower(), self._K[self.columns, column], lower=True) if count else []
        rest = self._K[column, column] - float(np.dot(row, row))
        if rest <= _INDEPENDENT:
            return False
        if count == len(self._L):
            self._store(self._lower(), room=max(16, 2 * count))
        self._L[count, :count] = row
        self._L[count, count] = np.sqrt(rest)
        self.columns.append(column)
        return True

    def drop(self, places: list[int]) -> None:
        """Without the columns at these places; the rows before the first of them stay."""
        first = min(places)
        kept = [column for place, column in enumerate(self.columns) if place not in set(places)]
        below = kept[first:]
        left = np.delete(self._lower(), places, axis=0)[first:, :first]
        self.columns = kept
        if below:
            block = self._K[np.ix_(below, below)] - left @ left.T
            self._L[first : len(kept), :first] = left
            self._L[first : len(kept), first : len(kept)] = cholesky(block, lower=True)

    def solve(self, b: Array) -> Array:
        solved: Array = cho_solve((self._lower(), True), b[self.columns])
        return solved

    def _lower(self) -> Array:
        count = len(self.columns)
        return self._L[:count, :count]

    def _store(self, lower: Array, room: int | None = None) -> None:
        size = len(lower) if room is None else room
        grown = np.zeros((size, size))
        grown[: len(lower), : len(lower)] = lower
        self._L = grown


def _active_set(
    K: Array, b: Array, begin: Array, rtol: float, max_steps: int
) -> tuple[Array, float, int, bool]:
    value, factor = np.zeros(len(b)), _Factor(K)
    first = np.argsort(-begin)[: int((begin > 1e-6 * begin.max(initial=0.0)).sum())]
    steps = 0
    if len(first):
        factor.set([int(column) for column in first])
        value[factor.columns] = begin[factor.columns]
        steps += _inside(factor, b, value)
    refused: set[int] = set()
    while True:
        left = b - K[:, factor.columns] @ value[factor.columns]
        # ‖t − Gᵀλ‖ is not known from K and b alone; the largest product with t is the scale that is.
        left[factor.columns] = 0.0
        left[list(refused)] = 0.0
        best = int(left.argmax())
        violation = max(float(left[best]), 0.0)
        if violation <= rtol:
            return value, violation, steps, True
        if steps >= max_steps:
            return value, violation, steps, False
        steps += 1
        if not factor.add(best):
            refused.add(best)
            continue
        moved = _inside(factor, b, value)
        steps += moved
        if best in factor.columns:
            refused.clear()
        else:  # rounding put it in and took it out again
            refused.add(best)


def _inside(factor: _Factor, b: Array, value: Array) -> int:
    """Go to the least squares of the columns in use, dropping those that become zero on the way."""
    dropped = 0
    while factor.columns:
        columns = np.array(factor.columns)
        goal = factor.solve(b)
        if float(goal.min()) > 0:
            value[:] = 0.0
            value[columns] = goal
            return dropped
        here = value[columns]
        falling = goal <= 0
        share = float(np.min(here[falling] / np.maximum(here[falling] - goal[falling], 1e-300)))
        moved = here + share * (goal - here)
        out = falling & (moved <= 1e-15 * max(float(np.abs(moved).max()), 1e-300))
        if not out.any():
            out = falling & (moved == moved[falling].min())
        value[:] = 0.0
        value[columns] = np.where(out, 0.0, moved)
        factor.drop([int(place) for place in np.flatnonzero(out)])
        dropped += 1
    value[:] = 0.0
    return dropped
