"""The largest margin of weights whose layers have spectral norm 1 at most, by Newton's method on a barrier."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

__all__ = ["central_path"]

_GROWTH = 8.0
_LAST = 1e9  # the gap is about (m + Σ ranks)/τ of the largest entry
_ON_THE_WAY, _AT_THE_END = (
    1e-2,
    1e-6,
)  # Newton decrements at which τ may grow, and at which the last point is good
_SUFFICIENT = 0.1  # of the decrease that the slope promises


def central_path(rows: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """w (P,) with all ‖W_k‖₂ ≤ 1, and λ (m,), near the optimum of max_w min_i ⟨a_i, w⟩; the largest |a| is about 1.

    For growing τ the minimum of −τ t − Σ_i log(⟨a_i, w⟩ − t) − Σ_k log det(I − W_k W_kᵀ) is followed; there
    λ_i ∝ 1/(⟨a_i, w⟩ − t) is nearly optimal for the dual (Boyd & Vandenberghe 2004, §11.2–3). Sizes of a few hundred
    weights are meant: every step solves a system of P + 1 equations.

    >>> w, multipliers = central_path(np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]), [(2, 2)])
    >>> w.round(4).tolist()[::3], (multipliers / multipliers.sum()).round(4).tolist()   # W = I
    ([1.0, 1.0], [0.5, 0.5])
    """
    barrier = _Barrier(rows, shapes)
    point, tau = np.append(np.zeros(rows.shape[1]), -1.0), 1.0
    while True:
        point = _newton(barrier, point, tau, good=_AT_THE_END if tau >= _LAST else _ON_THE_WAY)
        if tau >= _LAST:
            return point[:-1], 1 / barrier.slack(point)
        tau *= _GROWTH


def _newton(barrier: _Barrier, point: np.ndarray, tau: float, *, good: float) -> np.ndarray:
    """From one point (w, t) inside to nearly the minimum for τ, with steps halved until they lower it enough."""
    value = barrier.value(point, tau)
    for _ in range(60):
        slope, curved = barrier.derivatives(point, tau)
        step = -np.linalg.solve(curved, slope)
        decrement, length = float(-slope @ step), 1.0
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

    def derivatives(self, point: np.ndarray, tau: float) -> tuple[np.ndarray, np.ndarray]:
        """Slope and Hessian; of −log det S they are 2S⁻¹W and what its derivative makes of that."""
        size, inverse = self._rows.shape[1], 1 / self.slack(point)
        weighted = self._rows * inverse[:, None]
        slope = np.append(-weighted.sum(0), inverse.sum() - tau)
        curved = np.empty((size + 1, size + 1))
        curved[:size, :size] = weighted.T @ weighted
        curved[:size, size] = curved[size, :size] = -inverse @ weighted
        curved[size, size] = inverse @ inverse
        begin = 0
        for matrix in self._matrices(point):
            own = slice(begin, begin := begin + matrix.size)
            inner = np.linalg.inv(np.eye(len(matrix)) - matrix @ matrix.T)
            pulled = inner @ matrix
            outer = np.eye(matrix.shape[1]) + matrix.T @ pulled
            block = inner[:, None, :, None] * outer[None, :, None, :]
            block += pulled[:, None, None, :] * pulled.T[None, :, :, None]
            slope[own] += 2 * pulled.ravel()
            curved[own, own] += 2 * block.reshape(matrix.size, matrix.size)
        return slope, curved

    def _matrices(self, point: np.ndarray) -> Iterator[np.ndarray]:
        begin = 0
        for shape in self._shapes:
            yield point[begin : begin + math.prod(shape)].reshape(shape)
            begin += math.prod(shape)
