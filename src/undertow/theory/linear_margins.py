"""Linear classifiers of largest margin: in the L2 norm by a quadratic program, in the L1 norm by a linear one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, nnls

from undertow.core.errors import InputError

__all__ = ["largest_l1_margin", "largest_l2_margin"]

Array = NDArray[np.float64]


def largest_l2_margin(signed: Array) -> Array:
    """argmin ‖w‖₂ subject to y_i ⟨w, x_i⟩ ≥ 1, from the rows y_i x_i (N, d); exact to rounding.

    The nearest point to 0 of the rows' convex hull has the direction of w. With a ≥ 0, min ‖Aᵀa‖² + (1ᵀa − 1)² finds
    it: of a = s p with Σp = 1 the best s leaves an increasing function of ‖Aᵀp‖.

    >>> largest_l2_margin(np.array([[2.0, 0.0], [0.0, 2.0]])).round(6).tolist()
    [0.5, 0.5]
    """
    scale = float(np.abs(signed).max())
    rows = signed / scale
    weights, _ = nnls(np.vstack([rows.T, np.ones(len(rows))]), np.append(np.zeros(rows.shape[1]), 1.0))
    return _to_margin_one(rows.T @ weights, signed)


def largest_l1_margin(signed: Array) -> Array:
    """argmin ‖w‖₁ subject to y_i ⟨w, x_i⟩ ≥ 1; one solution where there are several.

    >>> largest_l1_margin(np.array([[2.0, 1.0], [2.0, -1.0]])).round(6).tolist()
    [0.5, 0.0]
    """
    scale, d = float(np.abs(signed).max()), signed.shape[1]
    rows = signed / scale
    found = linprog(np.ones(2 * d), A_ub=-np.hstack([rows, -rows]), b_ub=-np.ones(len(rows)))
    if not found.success:
        raise InputError("the points are not separable through 0: there is no largest margin.")
    return _to_margin_one(found.x[:d] - found.x[d:], signed)


def _to_margin_one(w: Array, signed: Array) -> Array:
    smallest = float((signed @ w).min())
    if not smallest > 1e-9 * float(np.abs(signed).max() * np.abs(w).sum()):
        raise InputError("the points are not separable through 0: there is no largest margin.")
    return w / smallest
