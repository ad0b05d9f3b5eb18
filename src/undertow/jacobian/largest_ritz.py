"""Largest eigenvalues of many short tridiagonal matrices on the host, and what they prove of those they come from.

T_k is what k steps of Lanczos leave (:mod:`undertow.jacobian.tridiagonal` has the formulas). A few dozen of them are
some thousand numbers: LAPACK's bisection (``dstebz``) takes microseconds for each, where a GPU would be launched for
every row, and a dense solver takes time k³.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dstebz

__all__ = ["largest_ritz", "log_polynomial"]

Floats = NDArray[np.float64]
_APART = 1e-10  # of the largest entry: how far apart the two bounds of θ are
_BY_NUMBER = 2  # LAPACK's range: the eigenvalues from one number to another


def largest_ritz(diagonal: Floats, off: Floats) -> tuple[Floats, Floats]:
    """θ, the largest eigenvalue of each T_k, (M,), from below and from above, 10⁻¹⁰ of itself apart.

    ``diagonal`` is (M, k); of ``off``, (M, k), the last column is not part of T_k.

    >>> below, above = largest_ritz(np.array([[2.0, 2.0]]), np.array([[1.0, 0.5]]))       # eigenvalues 1 and 3
    >>> bool(below[0] <= 3 <= above[0]), bool(above[0] - below[0] < 1e-9)
    (True, True)
    """
    last = diagonal.shape[1]
    apart = _APART * (diagonal + off).max(1)
    if last == 1:
        return diagonal[:, 0], diagonal[:, 0]
    found = [
        dstebz(own, beside[:-1], _BY_NUMBER, 0.0, 0.0, last, last, tolerance, "E")[1][0]
        for own, beside, tolerance in zip(diagonal, off, apart, strict=True)
    ]
    middle = np.array(found)
    return middle - apart, middle + apart


def log_polynomial(diagonal: Floats, off: Floats, points: Floats) -> Floats:
    """log p_k(λ) = Σ log q_j − Σ log b_j at one λ for each T_k, (M,); −∞ where a pivot q_j is not positive.

    >>> log_polynomial(np.array([[0.0]]), np.array([[2.0]]), np.array([2.0]))       # p_1(λ) = λ/b_1
    array([0.])
    """
    rows, beside = np.ascontiguousarray(diagonal.T), np.ascontiguousarray(off.T)
    pivots = np.empty_like(rows)
    with np.errstate(all="ignore"):  # beyond a pivot that is zero or negative nothing matters
        squares = beside * beside
        pivots[0] = points - rows[0]
        for j in range(1, len(rows)):
            pivots[j] = points - rows[j] - squares[j - 1] / pivots[j - 1]
        total = np.log(pivots / beside).sum(0)
    return np.where((pivots > 0).all(0), total, -np.inf)
