"""The largest margin that weights of norm 1 can have, in any of four norms, with a proof.

max over ‖w‖ ≤ 1 of min_i ⟨a_i, w⟩  =  min over λ ≥ 0, Σλ = 1 of ‖Σ λ_i a_i‖_*

Whatever solver finds w and λ, the left side at w is below the optimum and the right side at λ above it, so that the
two numbers prove each other. L1 and L∞ are linear programs, L2 is a least-squares problem with λ ≥ 0, and for the
norms that are a maximum over layers ``spectral_margin.py`` follows a barrier's central path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from undertow.core.errors import InputError
from undertow.theory.spectral_margin import central_path
from undertow.theory.weight_norms import as_weight_norm, dual_norm, weight_norm

__all__ = ["MaxMargin", "margin_rows", "max_margin"]

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class MaxMargin:
    """The optimum lies between ``value`` and ``upper``."""

    value: float
    """min_i ⟨a_i, w⟩ of the w found, ‖w‖ = 1."""
    upper: float
    """‖Σ λ_i a_i‖_* of the λ found: no w of norm 1 has a larger margin."""
    direction: Tensor
    """w (P,) float64, of norm 1. Except in L2 and the like, others may be as good."""
    multipliers: Tensor
    """λ (m,) ≥ 0 with sum 1."""


def max_margin(
    rows: Tensor, *, norm: float | str = 2, shapes: Sequence[Shape] = (), accuracy: float = 1e-9
) -> MaxMargin:
    """The largest min_i ⟨a_i, w⟩ over ‖w‖ ≤ 1, a_i the ``rows`` (m, P): a norm's hard-margin SVM.

    Args:
        rows: a_i, such as y_i x_i for two classes; ``margin_rows`` makes them of points and labels.
        norm: Of the weights: 2, "inf", 1, "spectral" or "layerwise" (see ``undertow.theory.weight_norms``).
        shapes: Of the layers that w consists of, one after the other; w is one column where none are given. Only
            "spectral" and "layerwise" ask.
        accuracy: How far these two follow their path: the optimum is known to about this times the number of rows.

    >>> rows = torch.tensor([[1.0, 0.0], [0.0, 0.5]])
    >>> for norm in (2, "inf", 1):
    ...     found = max_margin(rows, norm=norm)
    ...     print(norm, round(found.value, 6), round(found.upper, 6), found.direction.round(decimals=4).tolist())
    2 0.447214 0.447214 [0.4472, 0.8944]
    inf 0.5 0.5 [1.0, 1.0]
    1 0.333333 0.333333 [0.3333, 0.6667]
    """
    named, given = as_weight_norm(norm), rows.detach().double().cpu()
    if given.dim() != 2 or not len(given) or not bool(torch.isfinite(given).all()):
        raise InputError(f"rows must be a finite matrix (m, P), and they are {tuple(given.shape)}.")
    layers = tuple(shapes) or ((given.shape[1], 1),)
    if sum(int(np.prod(shape)) for shape in layers) != given.shape[1]:
        raise InputError(f"layers of shapes {layers} do not have {given.shape[1]} weights together.")
    scale = float(given.abs().max())
    if scale == 0:
        raise InputError("every row is zero: nothing can be separated.")
    scaled = (given / scale).numpy()
    # The Frobenius norm of a layer is the spectral norm of its entries in one row.
    rows_of_layers = [(1, int(np.prod(shape))) for shape in layers] if named == "layerwise" else layers
    if named in ("spectral", "layerwise") and not _is_vector(rows_of_layers):
        w, multipliers = central_path(scaled, rows_of_layers, accuracy=accuracy)
    else:
        w, multipliers = _SOLVERS[named](scaled)
    direction = torch.from_numpy(w)
    size = weight_norm(_layers(direction, layers), named)
    least = float((given @ direction).min())
    if not (size > 0 and least > 0):
        raise InputError("no weights give every point a positive margin: the points are not separable.")
    shares = torch.from_numpy(multipliers.clip(min=0) / multipliers.clip(min=0).sum())
    upper = dual_norm(_layers(shares @ given, layers), named)
    return MaxMargin(least / size, upper, direction / size, shares)


def margin_rows(x: Tensor, y: Tensor, *, classes: int = 2) -> Tensor:
    """a_i with ⟨a_i, w⟩ = s_y − s_j for a linear network without biases: y x (N, d), or (N (k−1), k d) for k outputs.

    For two classes w is the one logit's weight and labels are 0/1 or ±1; for k classes w is W (k, d) row by row.

    >>> margin_rows(torch.tensor([[1.0, 2.0]]), torch.tensor([0])).tolist()
    [[-1.0, -2.0]]
    >>> margin_rows(torch.tensor([[1.0]]), torch.tensor([0]), classes=3).tolist()
    [[1.0, -1.0, 0.0], [1.0, 0.0, -1.0]]
    """
    points = x.detach().flatten(1).double()
    if y.shape != (len(points),):
        raise InputError(f"y has shape {tuple(y.shape)} beside {len(points)} points: give a label for each.")
    if not bool(torch.isfinite(points).all()):
        raise InputError("x has entries that are not finite: leave these points out.")
    found = set(torch.unique(y).tolist())
    if not (found <= set(range(classes)) or (classes == 2 and found <= {-1, 1})):
        either = "0 and 1, or −1 and 1" if classes == 2 else f"0 … {classes - 1}"
        raise InputError(f"labels of {classes} classes must be {either}.")
    if classes == 2:
        return points * torch.where(y > 0, 1.0, -1.0).to(points)[:, None]
    own = torch.nn.functional.one_hot(y.long(), classes).to(points)
    pairs = own[:, None, :] - torch.eye(classes).to(points)  # (N, k, k): e_y − e_j
    rows = torch.einsum("njc,nd->njcd", pairs, points).flatten(2)
    return rows[own == 0]


def _layers(flat: Tensor, shapes: Sequence[Shape]) -> list[Tensor]:
    sizes = [int(np.prod(shape)) for shape in shapes]
    return [part.view(shape) for part, shape in zip(torch.split(flat, sizes), shapes, strict=True)]


def _in_sup(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """max t such that A w ≥ t and −1 ≤ w ≤ 1."""
    m, size = rows.shape
    goal = np.append(np.zeros(size), -1.0)
    solved = _program(goal, np.c_[-rows, np.ones(m)], np.zeros(m), [(-1, 1)] * size + [(None, None)])
    return solved.x[:size], -solved.ineqlin.marginals


def _in_l1(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """max t such that A (p − n) ≥ t, p, n ≥ 0, Σ p + n ≤ 1."""
    m, size = rows.shape
    goal = np.append(np.zeros(2 * size), -1.0)
    above = np.r_[np.c_[-rows, rows, np.ones(m)], [np.append(np.ones(2 * size), 0.0)]]
    solved = _program(goal, above, np.append(np.zeros(m), 1.0), [(0, None)] * (2 * size) + [(None, None)])
    return solved.x[:size] - solved.x[size:-1], -solved.ineqlin.marginals[:m]


def _in_l2(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The point of the hull of the a_i nearest to 0, by least squares with λ ≥ 0 (Lawson & Hanson 1974, ch. 23)."""
    goal = np.append(np.zeros(rows.shape[1]), 1.0)
    from scipy.optimize import (
        nnls,  # a quarter of a second, which those who only import this need not wait for
    )

    shares, _ = nnls(np.r_[rows.T, np.ones((1, len(rows)))], goal, maxiter=50 * len(rows))
    return rows.T @ shares, shares


_SOLVERS = {"1": _in_l1, "2": _in_l2, "inf": _in_sup, "spectral": _in_l2, "layerwise": _in_l2}


def _is_vector(shapes: Sequence[Shape]) -> bool:
    """Whether there is one layer, of one row or one column: its spectral norm is its length."""
    return len(shapes) == 1 and int(np.prod(shapes[0])) in (shapes[0][0], int(np.prod(shapes[0][1:])))


def _program(goal: np.ndarray, above: np.ndarray, bound: np.ndarray, bounds: Any) -> Any:
    from scipy.optimize import linprog

    solved = linprog(goal, A_ub=above, b_ub=bound, bounds=bounds, method="highs")
    if solved.x is None:
        raise InputError(f"the linear program of the margin has no solution: {solved.message}")
    return solved
