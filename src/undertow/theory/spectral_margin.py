"""The largest margin of weights whose layers have spectral norm 1 at most, by Newton's method on a barrier."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["central_path"]

_GROWTH = 8.0
_LAST = 1e9  # the gap is about (m + Σ ranks)/τ of the largest entry


def central_path(rows: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """w (P,) with all ‖W_k‖₂ ≤ 1, and λ (m,), near the optimum of max_w min_i ⟨a_i, w⟩; the largest |a| is about 1.

    For growing τ the minimum of −τ t − Σ_i log(⟨a_i, w⟩ − t) − Σ_k log det(I − W_k W_kᵀ) is followed; there
    λ_i ∝ 1/(⟨a_i, w⟩ − t) is nearly optimal for the dual (Boyd & Vandenberghe 2004, §11.2–3). Sizes of a few hundred
    weights are meant: every step solves a system of P + 1 equations.

    >>> w, multipliers = central_path(np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]), [(2, 2)])
    >>> w.round(4).tolist()[::3], (multipliers / multipliers.sum()).round(4).tolist()   # W = I
    ([1.0, 1.0], [0.5, 0.5])
    """
    size = rows.shape[1]
    w, t, tau = np.zeros(size), -1.0, 1.0
    while True:
        for _ in range(60):
            slack = rows @ w - t
            gradient, hessian = _barrier(w, shapes)
            inverse = 1 / slack
            slope = np.append(gradient - rows.T @ inverse, inverse.sum() - tau)
            curved = np.empty((size + 1, size + 1))
            weighted = rows * (inverse**2)[:, None]
            curved[:size, :size] = hessian + rows.T @ weighted
            curved[:size, size] = curved[size, :size] = -weighted.sum(0)
            curved[size, size] = (inverse**2).sum()
            step = -np.linalg.solve(curved, slope)
            decrement = float(-slope @ step)
            length = 1.0 if decrement < 0.25 else 1 / (1 + math.sqrt(decrement))
            while not _inside(w + length * step[:size], t + length * float(step[size]), rows, shapes):
                length /= 2
            w, t = w + length * step[:size], t + length * float(step[size])
            if decrement < 1e-6:
                break
        if tau >= _LAST:
            return w, 1 / (rows @ w - t)
        tau *= _GROWTH


def _matrices(w: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    return [part.reshape(shape[0], -1) for part, shape in zip(np.split(w, ends), shapes, strict=True)]


def _barrier(w: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """Gradient 2S⁻¹W and Hessian of −log det S, S = I − WWᵀ, layer by layer."""
    gradients, hessian, begin = [], np.zeros((len(w), len(w))), 0
    for matrix in _matrices(w, shapes):
        inverse = np.linalg.inv(np.eye(len(matrix)) - matrix @ matrix.T)
        pulled = inverse @ matrix
        gradients.append(2 * pulled.ravel())
        inner = np.eye(matrix.shape[1]) + matrix.T @ pulled
        crossed = np.einsum("ib,aj->ijab", pulled, pulled).reshape(matrix.size, matrix.size)
        end = begin + matrix.size
        hessian[begin:end, begin:end] = 2 * (np.kron(inverse, inner) + crossed)
        begin = end
    return np.concatenate(gradients), hessian


def _inside(w: np.ndarray, t: float, rows: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> bool:
    return bool((rows @ w > t).all()) and all(
        np.linalg.norm(matrix, 2) < 1 for matrix in _matrices(w, shapes)
    )
