"""Multipliers of the margin problem from gradients held as rows: small networks with at most one layer of kinks.

A margin's gradient is affine in the slopes of one layer: g + Σ_u σ_u d_u with σ_u between 0 and 1 for every unit u at
its kink. So g and the d_u are computed once, and all that follows is products of a small matrix with vectors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from undertow.measures.kink_slopes import KinkSlopes, kinked_modules
from undertow.measures.nonnegative import nonnegative_least_squares
from undertow.measures.pair_gradients import PairGradients, Pairs

__all__ = ["GradientRows", "RowMultipliers", "duality_bound", "gradient_rows", "row_multipliers"]

Array = NDArray[np.float64]
_MOST = 2**22  # numbers in all rows together


@dataclass(frozen=True, eq=False)
class GradientRows:
    """Gradients of C margins by P parameters, and what the slopes at kinks can make of F of them."""

    pairs: Array
    """(C, P) with autograd's slopes."""
    theta: Array
    """θ̂ (P,)."""
    owner: NDArray[np.int64]
    """(F,): which pair has kinks."""
    low: Array
    """(F, P): its gradient with all of its kinks at their lower slope."""
    unit: NDArray[np.int64]
    """(U,): of which of the F pairs a unit is at its kink."""
    rise: Array
    """(U, P): what is added where that unit has its upper slope."""

    def steepest(self, left: Array) -> tuple[Array, Array]:
        """For each pair with kinks the gradient that points most along ``left``, (F, P), and its product with it."""
        gains = self.rise @ left
        up = gains > 0
        rows, products = self.low.copy(), self.low @ left
        np.add.at(rows, self.unit[up], self.rise[up])
        np.add.at(products, self.unit[up], gains[up])
        return rows, products


@dataclass(frozen=True, eq=False)
class RowMultipliers:
    """λ (C,) of the pairs, what it leaves, and what no other λ are below; see ``Multipliers``."""

    value: Array
    residual: float
    total: float
    bound: float
    converged: bool
    constraints: int


def gradient_rows(
    gradients: PairGradients, pairs: Pairs, free: Pairs | None, theta: Mapping[str, Tensor]
) -> GradientRows | None:
    """The rows of these pairs and of those with kinks; None where they are too many, or kinks in two layers."""
    kinks = {} if free is None or free.slopes is None else free.slopes.at
    units = sum(int(mask.sum()) for mask in kinks.values())
    numbers = sum(weight.numel() for weight in theta.values())
    many = (len(pairs) + units + (0 if free is None else len(free))) * numbers > _MOST
    if many or sum(bool(mask.any()) for mask in kinks.values()) > 1:
        return None
    own, flat = gradients.rows(pairs).cpu().numpy(), gradients.flat(theta).cpu().numpy()
    if free is None or not units:
        none = np.zeros((0, numbers))
        return GradientRows(own, flat, np.zeros(0, int), none, np.zeros(0, int), none)
    (name,) = [name for name, mask in kinks.items() if bool(mask.any())]
    assert free.slopes is not None
    mask, below = kinks[name], kinked_modules(gradients.net, gradients.x[:1])[name]
    low = torch.where(mask, below, free.slopes.slope[name])
    which, place = torch.nonzero(mask.flatten(1), as_tuple=True)
    raised = low[which].flatten(1)
    raised[torch.arange(len(which)), place] = 1.0
    slopes = KinkSlopes(
        {other: torch.cat([at, at[which]]) for other, at in kinks.items()},
        {other: torch.cat([slope, slope[which]]) for other, slope in free.slopes.slope.items()}
        | {name: torch.cat([low, raised.view_as(low[which])])},
    )
    both = Pairs(
        torch.cat([free.points, free.points[which]]), torch.cat([free.rivals, free.rivals[which]]), slopes
    )
    rows = gradients.rows(both).cpu().numpy()
    bottom, at = rows[: len(free)], which.cpu().numpy()
    places = {pair: place for place, pair in enumerate(_numbers(pairs))}
    owner = np.array([places[pair] for pair in _numbers(free)])
    return GradientRows(own, flat, owner, bottom, at, rows[len(free) :] - bottom[at])


def _numbers(pairs: Pairs) -> list[tuple[int, int]]:
    return list(zip(pairs.points.tolist(), pairs.rivals.tolist(), strict=True))


def row_multipliers(rows: GradientRows, excess: Array, *, rtol: float, max_rounds: int) -> RowMultipliers:
    """λ ≥ 0 that minimise ‖θ̂ − Σ λ_c ∇q_c‖² + (Σ λ_c e_c)² with the best slopes at kinks, e (C,) the ``excess``.

    Slopes that would help are found by their price and taken in as further columns, until none does.
    """
    columns, own = rows.pairs, np.arange(len(rows.pairs))
    value = np.zeros(len(columns))
    for round_ in range(max_rounds):
        gram = columns @ columns.T + np.outer(excess[own], excess[own])
        start = value if value.any() else None
        value = nonnegative_least_squares(gram, columns @ rows.theta, start=start).value
        left = rows.theta - value @ columns
        slack, norm = float(value @ excess[own]), float(np.linalg.norm(left))
        total = math.hypot(norm, slack)
        steepest, gains = rows.steepest(left)
        gains = gains - excess[rows.owner] * slack
        prices = np.concatenate([rows.pairs @ left - excess * slack, gains])
        along = np.concatenate([rows.pairs @ rows.theta, steepest @ rows.theta])
        bound = duality_bound(float(rows.theta @ left), prices, along, slack, norm)
        converged = total - bound <= rtol * total + 1e-6
        useful = np.flatnonzero(gains > 1e-9 * np.abs(gains).max(initial=0.0))
        if converged or round_ == max_rounds - 1 or not len(useful):
            break
        columns = np.concatenate([columns, steepest[useful]])
        own = np.concatenate([own, rows.owner[useful]])
        value = np.concatenate([value, np.zeros(len(useful))])
    by_pair = np.zeros(len(rows.pairs))
    np.add.at(by_pair, own, value)
    return RowMultipliers(by_pair, norm, total, bound, converged, len(columns))


def duality_bound(inner: float, prices: Array, along: Array, slack: float, norm: float) -> float:
    """What the root of residual² + slack² is not below for any λ ≥ 0, by weak duality.

    A vector u with ⟨u, a_c⟩ ≤ 0 for all constraints proves ⟨t, u⟩/‖u‖ for the goal t = (θ̂, 0). What is left over, u,
    is such a vector at the optimum. Before that, u − ε t is one, where ε makes up for the worst price: ⟨t, a_c⟩ is
    positive on a network that classifies every point. Otherwise nothing is proved, and the bound is 0.

    Args:
        inner: ⟨t, u⟩.
        prices: ⟨u, a_c⟩ of every constraint.
        along: ⟨t, a_c⟩.
        slack: The last entry of −u.
        norm: The length of the others.
    """
    if not len(prices) or float(prices.max()) <= 1e-9 * float(np.abs(along).max()):
        worst = 0.0
    elif not float(along.min()) > 0:
        return 0.0
    else:
        worst = float((prices / along).max())
    square = norm**2 + slack**2 - 2 * worst * inner + worst**2
    return max(0.0, (inner - worst) / math.sqrt(square)) if square > 0 else 0.0
