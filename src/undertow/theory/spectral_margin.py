"""The largest margin of weights whose layers have spectral norm 1 at most, by Newton's method on a barrier."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

__all__ = ["central_path"]

_GROWTH = 8.0
# Newton decrements at which τ may grow, and at which the last point is good.
_ON_THE_WAY, _AT_THE_END = 1e-2, 1e-6
_SUFFICIENT = 0.1  # of the decrease that the slope promises


def central_path(
    rows: np.ndarray, shapes: Sequence[tuple[int, ...]], *, accuracy: float = 1e-9
) -> tuple[np.ndarray, np.ndarray]:
    """w (P,) with all ‖W_k‖₂ ≤ 1, and λ (m,), near the optimum of max_w min_i ⟨a_i, w⟩; the largest |a| is about 1.

    For growing τ the minimum of −τ t − Σ_i log(⟨a_i, w⟩ − t) − Σ_k log det(I − W_k W_kᵀ) is followed; there
    λ_i ∝ 1/(⟨a_i, w⟩ − t) is nearly optimal for the dual (Boyd & Vandenberghe 2004, §11.2–3). A few hundred rows are
    meant: every step solves a system of m + 1 equations, whatever P is. The path ends at τ = 1/``accuracy``, where the
    gap is about m + Σ ranks times that.

    >>> w, multipliers = central_path(np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]), [(2, 2)])
    >>> w.round(4).tolist()[::3], (multipliers / multipliers.sum()).round(4).tolist()   # W = I
    ([1.0, 1.0], [0.5, 0.5])
    """
    barrier = _Barrier(rows, shapes)
    point, tau = np.append(np.zeros(rows.shape[1]), -1.0), 1.0
    while True:
        last = tau * accuracy >= 1
        point = _newton(barrier, point, tau, good=_AT_THE_END if last else _ON_THE_WAY)
        if last:
            return point[:-1], 1 / barrier.slack(point)
        tau *= _GROWTH


def _newton(barrier: _Barrier, point: np.ndarray, tau: float, *, good: float) -> np.ndarray:
    """From one point (w, t) inside to nearly the minimum for τ, with steps halved until they lower it enough."""
    value = barrier.value(point, tau)
    for _ in range(60):
        step, decrement = barrier.newton_step(point, tau)
        length = 1.0
        # Close to the minimum the decrease is below the rounding of the value, and whole steps are right.
        rounding = 1e-9 * abs(value) if decrement < _ON_THE_WAY else 0.0
        while (reached := barrier.value(point + length * step, tau)) > (
            value - _SUFFICIENT * length * decrement + rounding
        ):
            length /= 2
            if length < 1e-9:
                return point
        point, value = point + length * step, reached
        if decrement < good:
            break
    return point


class _Barrier:
    """−τ t − Σ_i log(⟨a_i, w⟩ − t) − Σ_k log det S_k, S_k = I − W_k W_kᵀ, at points (w, t) of P + 1 numbers."""

    def __init__(self, rows: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> None:
        self._rows = rows
        self._shapes = [(shape[0], math.prod(shape[1:])) for shape in shapes]

    def slack(self, point: np.ndarray) -> np.ndarray:
        found: np.ndarray = self._rows @ point[:-1] - point[-1]
        return found

    def value(self, point: np.ndarray, tau: float) -> float:
        """Infinite outside."""
        slack = self.slack(point)
        if not (slack > 0).all():
            return math.inf
        value = -tau * float(point[-1]) - float(np.log(slack).sum())
        for matrix in self._matrices(point):
            try:
                lower = np.linalg.cholesky(np.eye(len(matrix)) - matrix @ matrix.T)
            except np.linalg.LinAlgError:
                return math.inf
            value -= 2 * float(np.log(lower.diagonal()).sum())
        return value

    def newton_step(self, point: np.ndarray, tau: float) -> tuple[np.ndarray, float]:
        """−H⁻¹g of the whole at (w, t), and gᵀH⁻¹g.

        With K = A B⁻¹Aᵀ, B the Hessian of the log determinants alone, and y = (A dw − dt)/slack², it is the solution of
        (slack² + K) y + dt = −A B⁻¹∇_w and Σ y = ∇_t, from which dw = −B⁻¹(∇_w + Aᵀy).
        """
        slack = self.slack(point)
        layers = [_Layer(matrix) for matrix in self._matrices(point)]
        by_w = np.concatenate([layer.slope.ravel() for layer in layers]) - (1 / slack) @ self._rows
        by_t = float((1 / slack).sum()) - tau
        solved = np.concatenate(
            [
                layer.solve(part)
                for layer, part in zip(layers, self._parts(np.r_[self._rows, by_w[None]]), strict=True)
            ],
            axis=1,
        )
        count = len(slack)
        system = np.ones((count + 1, count + 1))
        system[:count, :count] = self._rows @ solved[:-1].T
        system[range(count), range(count)] += slack**2
        system[count, count] = 0.0
        found = np.linalg.solve(system, np.append(-self._rows @ solved[-1], by_t))
        step = np.append(-solved[-1] - found[:count] @ solved[:-1], found[count])
        return step, float(-by_w @ step[:-1] - by_t * step[-1])

    def _parts(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """The columns of every layer, as matrices (m, p, q)."""
        begin = 0
        for shape in self._shapes:
            yield rows[:, begin : begin + math.prod(shape)].reshape(-1, *shape)
            begin += math.prod(shape)

    def _matrices(self, point: np.ndarray) -> Iterator[np.ndarray]:
        begin = 0
        for shape in self._shapes:
            yield point[begin : begin + math.prod(shape)].reshape(shape)
            begin += math.prod(shape)


class _Layer:
    """−log det(I − WWᵀ) = −Σ log(1 − σ²) at one W = U diag(σ) Vᵀ: its slope, and what its Hessian makes of what.

    In the bases U and V the Hessian of E takes entries together in pairs: 2(E_ij + σ_iσ_j E_ji)/((1 − σ_i²)(1 − σ_j²)),
    with σ_j = 0 and no E_ji beyond the last singular value.
    """

    def __init__(self, matrix: np.ndarray) -> None:
        self._wide = matrix.shape[1] >= matrix.shape[0]
        self._left, values, self._right = np.linalg.svd(matrix if self._wide else matrix.T)
        count, columns = len(values), len(self._right)
        within = 1 - values**2
        slope = (self._left * (2 * values / within)) @ self._right[:count]
        self.slope = slope if self._wide else slope.T
        products = np.outer(values, values)
        self._alone = np.repeat(within[:, None] / 2, columns, axis=1)
        self._alone[:, :count] *= within / (1 - products**2)
        self._crossed = self._alone[:, :count] * products

    def solve(self, given: np.ndarray) -> np.ndarray:
        """The Hessian's inverse times each of the matrices (m, p, q), flat (m, pq)."""
        wide = given if self._wide else given.transpose(0, 2, 1)
        inside = self._left.T @ wide @ self._right.T
        count = len(self._left)
        found = inside * self._alone
        found[:, :, :count] -= inside[:, :, :count].transpose(0, 2, 1) * self._crossed
        back: np.ndarray = self._left @ found @ self._right
        return (back if self._wide else back.transpose(0, 2, 1)).reshape(len(given), -1)
