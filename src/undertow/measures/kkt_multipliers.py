"""The multipliers λ ≥ 0 that come nearest to θ = Σ λ_nj ∇(s_y − s_j)(x_n), with a bound on how much better others do.

Not all constraints are needed at once. The problem is solved for those nearest to the smallest margin, then every
other one is priced, by one forward pass with derivatives: a constraint whose gradient points along what is left of θ
would help, and is taken in. The same pricing finds the slopes at kinks. What no constraint can improve is optimal, and
before that the prices bound the distance to the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from undertow.core.scoring import slices
from undertow.measures.gradient_factors import GradientFactor, gram_of, join
from undertow.measures.kink_prices import along, kinked_pairs, most_useful, steepest_slopes
from undertow.measures.kink_slopes import count_units
from undertow.measures.kkt_rows import duality_bound, gradient_rows, row_multipliers
from undertow.measures.nonnegative import nonnegative_least_squares
from undertow.measures.pair_gradients import PairGradients, Pairs

__all__ = ["Multipliers", "best_multipliers"]

_NEW = 1000  # constraints that one round may take in
_MANY = 2000  # constraints from which on those without weight are let go: a round takes as the cube of their number
_SLOPES = 2**25  # units × constraints up to which slopes are free at every point


@dataclass(frozen=True, eq=False)
class Multipliers:
    """λ, and what it leaves of θ̂ = θ/‖θ‖."""

    value: Tensor
    """λ (N, k), or (N, 1) for one logit, with θ̂ in place of θ and gradients taken at θ."""
    residual: float
    """‖θ̂ − Σ λ ∇q‖."""
    total: float
    """The root of residual² + (Σ λ (q − q_min)/‖θ‖)², which the λ minimise."""
    bound: float
    """No other λ have a total below this."""
    converged: bool
    constraints: int
    """How many constraints the Gram matrix had at the end."""
    kinks: int
    """How many points had a unit at its kink."""


class _Problem:
    """The constraints taken in so far, their Gram matrix and their λ."""

    def __init__(self, gradients: PairGradients, excess: Tensor, theta: dict[str, Tensor]) -> None:
        self.gradients, self.theta, self.excess = gradients, theta, excess
        self.along = gradients.of_pairs(gradients.products(theta))  # ⟨θ̂, ∇q⟩
        self.blocks: list[Pairs] = []
        self._goals = np.zeros(0)
        self.factors: dict[str, GradientFactor] = {}
        self.gram = np.zeros((0, 0))
        self.solution = np.zeros(0)

    def take(self, pairs: Pairs) -> None:
        """Take constraints in, with their products with those that are there."""
        new = self.gradients.factors(pairs)
        corner = gram_of(new, new).cpu().numpy()
        if self.blocks:
            side = gram_of(self.factors, new).cpu().numpy()
            self.gram = np.block([[self.gram, side], [side.T, corner]])
            self.factors = join(self.factors, new)
        else:
            self.gram, self.factors = corner, new
        self.blocks.append(pairs)
        self._goals = np.concatenate([self._goals, self.along_theta(pairs).cpu().numpy()])
        self.solution = np.concatenate([self.solution, np.zeros(len(pairs))])

    def __len__(self) -> int:
        return len(self.solution)

    def forget_idle(self) -> None:
        """Keep the constraints that carry weight: one that is let go comes in again where its price says so."""
        used = np.flatnonzero(self.solution > 0)
        if not len(used):
            return
        self.gram, self._goals = self.gram[np.ix_(used, used)], self._goals[used]
        rows = torch.from_numpy(used).to(self.excess.device)
        self.factors = {name: factor.part(rows) for name, factor in self.factors.items()}
        ends = np.cumsum([len(block) for block in self.blocks])
        whose = np.searchsorted(ends, used, side="right")
        begins = ends - [len(block) for block in self.blocks]
        parts = [
            block.part(torch.from_numpy(used[whose == place] - begins[place]).to(rows.device))
            for place, block in enumerate(self.blocks)
        ]
        self.blocks = [part for part in parts if len(part)]
        self.solution = self.solution[used]

    def taken(self) -> Tensor:
        """Which pairs (N, k) are in, with autograd's slopes."""
        found = torch.zeros_like(self.excess, dtype=torch.bool)
        for block in self.blocks:
            if block.slopes is None:
                found[block.points, block.rivals] = True
        return found

    def along_theta(self, pairs: Pairs) -> Tensor:
        """⟨θ̂, ∇q⟩ of these pairs, with their own slopes at kinks."""
        if pairs.slopes is None:
            return self.along[pairs.points, pairs.rivals]
        parts = [pairs.part(rows) for rows in slices(len(pairs), self.gradients.chunk)]
        return torch.cat([along(self.gradients, part, self.theta) for part in parts])

    def solve(self) -> None:
        columns = [self.excess[block.points, block.rivals] for block in self.blocks]
        excess = torch.cat(columns).cpu().numpy()
        start = self.solution if self.solution.any() else None
        gram = self.gram + np.outer(excess, excess)
        self.solution = nonnegative_least_squares(gram, self._goals, start=start).value

    def multipliers(self) -> Tensor:
        """λ of every pair, those of a pair with several slopes together."""
        value = torch.zeros_like(self.excess)
        columns = torch.from_numpy(self.solution).to(value)
        begin = 0
        for block in self.blocks:
            own = columns[begin : begin + len(block)]
            value.index_put_((block.points, block.rivals), own, accumulate=True)
            begin += len(block)
        return value

    def left(self) -> dict[str, Tensor]:
        """θ̂ − Σ λ ∇q by name."""
        rest = {name: weight.clone() for name, weight in self.theta.items()}
        columns = torch.from_numpy(self.solution).to(self.excess)
        begin = 0
        for block in self.blocks:
            own = columns[begin : begin + len(block)]
            for name, gradient in self.gradients.combined_pairs(block, own).items():
                rest[name].sub_(gradient)
            begin += len(block)
        return rest


def best_multipliers(
    gradients: PairGradients,
    gaps: Tensor,
    theta: Mapping[str, Tensor],
    *,
    limit: int,
    kinks: float,
    rtol: float = 1e-3,
    max_rounds: int = 30,
) -> Multipliers:
    """λ ≥ 0 that minimise ‖θ̂ − Σ λ_nj ∇q_nj‖² + (Σ λ_nj (q_nj − q_min)/‖θ‖)², q_nj = ``gaps`` (N, k).

    The second term asks for complementary slackness: with more constraints than parameters the first alone does not
    determine λ. ``limit`` constraints are taken in at first. With ``kinks`` > 0, slopes of rectifiers whose input is
    within that share of zero are free between both sides (see ``find_kinks``): in a large network on many points at
    the points of the first constraints alone.
    """
    size = float(torch.linalg.vector_norm(torch.stack([t.norm() for t in theta.values()])))
    unit = {name: weight / size for name, weight in theta.items()}
    order = torch.argsort(gaps.flatten(), stable=True)[: int(gaps.isfinite().sum())]
    every = Pairs(order // gaps.shape[1], order % gaps.shape[1])
    pairs = every.part(slice(limit))
    room = len(every) * count_units(gradients.net, gradients.x[:1]) <= _SLOPES
    free = kinked_pairs(gradients, every if room else pairs, kinks)
    rows = gradient_rows(gradients, pairs, free, unit) if len(pairs) == len(every) else None
    excess = ((gaps - gaps.min()) / size).masked_fill(gaps.isinf(), 0.0)
    if rows is None:
        problem = _Problem(gradients, excess, unit)
        problem.take(pairs)
        return _by_rounds(problem, gaps, free, rtol=rtol, max_rounds=max_rounds)
    own = excess[pairs.points, pairs.rivals].cpu().numpy()
    small = row_multipliers(rows, own, rtol=rtol, max_rounds=max_rounds)
    value = torch.zeros_like(gaps)
    value[pairs.points, pairs.rivals] = torch.from_numpy(small.value).to(gaps)
    return Multipliers(
        value,
        small.residual,
        small.total,
        small.bound,
        small.converged,
        small.constraints,
        _count_points(free),
    )


def _by_rounds(
    problem: _Problem, gaps: Tensor, free: Pairs | None, *, rtol: float, max_rounds: int
) -> Multipliers:
    """Solve, price all constraints, take in those that would help, until no λ does better by ``rtol``."""
    gradients = problem.gradients
    for round_ in range(max_rounds):
        problem.solve()
        left = problem.left()
        value = problem.multipliers()
        slack = float((value * problem.excess).sum())
        norm = float(torch.linalg.vector_norm(torch.stack([t.norm() for t in left.values()])))
        total = math.hypot(norm, slack)
        price = gradients.of_pairs(gradients.products(left)) - problem.excess * slack
        price = price.masked_fill(gaps.isinf(), -torch.inf)
        steepest, gains = steepest_slopes(gradients, free, left, problem.excess, slack)
        bound = _bound(problem, left, price, gains, steepest, slack, norm)
        converged = total - bound <= rtol * total + 1e-6
        if converged or round_ == max_rounds - 1:
            break
        if len(problem) > _MANY:
            problem.forget_idle()
        outside = price.masked_fill(problem.taken(), -torch.inf).flatten()
        best = torch.topk(outside, min(_NEW, len(outside))).indices
        best = best[outside[best] > 0]
        if len(best):
            more = Pairs(best // gaps.shape[1], best % gaps.shape[1])
            problem.take(more)
        useful = most_useful(gains, limit=_NEW)
        if steepest is not None and len(useful):
            problem.take(steepest.part(useful))
        elif not len(best):
            break
    return Multipliers(value, norm, total, bound, converged, len(problem), _count_points(free))


def _count_points(free: Pairs | None) -> int:
    return 0 if free is None else len(set(free.points.tolist()))


def _bound(
    problem: _Problem,
    left: Mapping[str, Tensor],
    price: Tensor,
    gains: Tensor | None,
    steepest: Pairs | None,
    slack: float,
    norm: float,
) -> float:
    """``duality_bound`` over all pairs, and those with kinks at the slopes that would help most."""
    inner = sum(float((problem.theta[name] * each).sum()) for name, each in left.items())
    exists = ~price.isinf()
    prices, along = [price[exists]], [problem.along[exists]]
    if gains is not None and steepest is not None:
        prices.append(gains)
        along.append(problem.along_theta(steepest))
    return duality_bound(inner, torch.cat(prices).cpu().numpy(), torch.cat(along).cpu().numpy(), slack, norm)
