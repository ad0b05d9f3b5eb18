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
from torch.func import functional_call

from undertow.core.scoring import as_rows, slices
from undertow.measures.kink_slopes import KinkSlopes, find_kinks, kinked_modules, record_inputs
from undertow.measures.nonnegative import nonnegative_least_squares
from undertow.measures.pair_gradients import Factor, PairGradients, Pairs, derivatives_along, gram_of, join

__all__ = ["Multipliers", "best_multipliers"]

_NEW = 1000  # constraints that one round may take in
_SWEEPS = 2


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

    def __init__(self, gradients: PairGradients, gaps: Tensor, theta: dict[str, Tensor], size: float) -> None:
        self.gradients, self.theta = gradients, theta
        self.excess = ((gaps - gaps.min()) / size).masked_fill(gaps.isinf(), 0.0)
        self.along = gradients.of_pairs(gradients.products(theta))  # ⟨θ̂, ∇q⟩
        self.blocks: list[Pairs] = []
        self.factors: dict[str, Factor] = {}
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
        self.solution = np.concatenate([self.solution, np.zeros(len(pairs))])

    def __len__(self) -> int:
        return len(self.solution)

    def _of_columns(self, values: Tensor) -> Tensor:
        return torch.cat([values[block.points, block.rivals] for block in self.blocks])

    def solve(self) -> None:
        excess = self._of_columns(self.excess).cpu().numpy()
        goal = self._of_columns(self.along).cpu().numpy()
        start = self.solution if self.solution.any() else None
        gram = self.gram + np.outer(excess, excess)
        self.solution = nonnegative_least_squares(gram, goal, start=start).value

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
    within that share of zero are free between both sides (see ``find_kinks``).
    """
    size = float(torch.linalg.vector_norm(torch.stack([t.norm() for t in theta.values()])))
    unit = {name: weight / size for name, weight in theta.items()}
    problem = _Problem(gradients, gaps, unit, size)
    order = torch.argsort(gaps.flatten(), stable=True)[: int(gaps.isfinite().sum())]
    first = order[:limit]
    pairs = Pairs(first // gaps.shape[1], first % gaps.shape[1])
    problem.take(pairs)
    free = _kinked(gradients, pairs, kinks)
    taken = torch.zeros_like(gaps, dtype=torch.bool)
    taken[pairs.points, pairs.rivals] = True
    for round_ in range(max_rounds):
        problem.solve()
        left = problem.left()
        value = problem.multipliers()
        slack = float((value * problem.excess).sum())
        norm = float(torch.linalg.vector_norm(torch.stack([t.norm() for t in left.values()])))
        total = math.hypot(norm, slack)
        price = gradients.of_pairs(gradients.products(left)) - problem.excess * slack
        price = price.masked_fill(gaps.isinf(), -torch.inf)
        fresh, gains = _slopes_at_kinks(gradients, free, left, problem.excess, slack)
        bound = _bound(problem, left, price, gains, free, slack, norm)
        converged = total - bound <= rtol * total + 1e-6
        if converged or round_ == max_rounds - 1:
            break
        outside = price.masked_fill(taken, -torch.inf).flatten()
        best = torch.topk(outside, min(_NEW, len(outside))).indices
        best = best[outside[best] > 0]
        if len(best):
            more = Pairs(best // gaps.shape[1], best % gaps.shape[1])
            problem.take(more)
            taken[more.points, more.rivals] = True
        if fresh is not None:
            problem.take(fresh)
        elif not len(best):
            break
    return Multipliers(
        value,
        norm,
        total,
        bound,
        converged,
        len(problem),
        0 if free is None else len(set(free.points.tolist())),
    )


def _bound(
    problem: _Problem,
    left: Mapping[str, Tensor],
    price: Tensor,
    gains: Tensor | None,
    free: Pairs | None,
    slack: float,
    norm: float,
) -> float:
    """What no λ ≥ 0 can be below, by weak duality.

    A vector u with ⟨u, a_c⟩ ≤ 0 for all constraints proves ⟨t, u⟩/‖u‖ for the goal t = (θ̂, 0). What is left over, u,
    is such a vector at the optimum. Before that, u − ε t is one, where ε makes up for the worst price: ⟨t, a_c⟩ is
    positive on a network that classifies every point. Otherwise nothing is proved, and the bound is 0.
    """
    inner = sum(float((problem.theta[name] * each).sum()) for name, each in left.items())
    along = problem.along.masked_fill(price.isinf(), torch.inf)
    highest = float(price.max()) if gains is None else max(float(price.max()), float(gains.max()))
    if highest <= 1e-9 * float(problem.along.abs().max()):
        worst = 0.0
    elif not float(along.min()) > 0:
        return 0.0
    else:
        worst = float((price / along).max())
        if gains is not None and free is not None:
            worst = max(worst, float((gains / problem.along[free.points, free.rivals]).max()))
    square = norm**2 + slack**2 - 2 * worst * inner + worst**2
    return max(0.0, (inner - worst) / math.sqrt(square)) if square > 0 else 0.0


def _kinked(gradients: PairGradients, pairs: Pairs, tolerance: float) -> Pairs | None:
    """Those of the pairs whose point has a unit at its kink, with autograd's slopes to begin with."""
    if not tolerance > 0:
        return None
    points, place = torch.unique(pairs.points, return_inverse=True)
    found = find_kinks(gradients.net, gradients.x[points], tolerance=tolerance, chunk=gradients.chunk)
    if found is None:
        return None
    rows = torch.nonzero(found.rows[place]).flatten()
    return Pairs(pairs.points[rows], pairs.rivals[rows], found.part(place[rows]))


def _slopes_at_kinks(
    gradients: PairGradients, free: Pairs | None, left: Mapping[str, Tensor], excess: Tensor, slack: float
) -> tuple[Pairs | None, Tensor | None]:
    """For each pair with kinks the slopes whose gradient points most along what is left, and its price."""
    if free is None:
        return None, None
    found: list[KinkSlopes] = []
    gains: list[Tensor] = []
    for part in slices(len(free), gradients.chunk):
        slopes, gain = _steepest(gradients, free.part(part), left)
        found.append(slopes)
        gains.append(gain)
    price = torch.cat(gains) - excess[free.points, free.rivals] * slack
    slopes = KinkSlopes(
        {name: torch.cat([each.at[name] for each in found]) for name in found[0].at},
        {name: torch.cat([each.slope[name] for each in found]) for name in found[0].slope},
    )
    useful = torch.nonzero(price > 1e-9).flatten()
    useful = useful[torch.topk(price[useful], min(_NEW, len(useful))).indices]
    fresh = Pairs(free.points, free.rivals, slopes).part(useful) if len(useful) else None
    return fresh, price


def _steepest(
    gradients: PairGradients, pairs: Pairs, left: Mapping[str, Tensor]
) -> tuple[KinkSlopes, Tensor]:
    """Slopes at kinks that make the margins' derivatives along ``left`` large, one activation after the other.

    The derivative is linear in the slopes of one layer, so that each layer's best is at an end: the sign of (what
    arrives at the unit) × (what the margin makes of it). With one hidden layer that is the maximum.
    """
    assert pairs.slopes is not None
    net, x = gradients.net, gradients.x[pairs.points]
    lower = kinked_modules(net, x[:1])
    slopes, q_slopes = pairs.slopes, gradients.score_slopes(pairs)
    names = list(slopes.at)
    for name in names * (_SWEEPS if len(names) > 1 else 1):
        arriving, _ = _forward(gradients, slopes, x, left, lower)
        leaving = _backward(gradients, slopes, x, q_slopes, name)
        up = arriving[name] * leaving > 0
        best = torch.where(up, 1.0, lower[name]).to(x)
        changed = torch.where(slopes.at[name], best, slopes.slope[name])
        slopes = KinkSlopes(slopes.at, {**slopes.slope, name: changed})
    _, derivatives = _forward(gradients, slopes, x, left, lower)
    return slopes, (derivatives * q_slopes).sum(1)


def _forward(
    gradients: PairGradients,
    slopes: KinkSlopes,
    x: Tensor,
    vector: Mapping[str, Tensor],
    modules: Mapping[str, float],
) -> tuple[dict[str, Tensor], Tensor]:
    """Derivatives along ``vector`` of what every activation is given, and of the scores."""
    net = gradients.net
    leaves = {name: weight.clone().requires_grad_() for name, weight in gradients.weights.items()}
    with torch.enable_grad(), slopes.on(net), record_inputs(net, modules) as kept:
        scores = as_rows(functional_call(net, leaves, (x,)), len(x))
    moving = {name: z for name, z in kept.items() if z.requires_grad}
    *arriving, tangent = derivatives_along([*moving.values(), scores], leaves, vector)
    still = {name: torch.zeros_like(z) for name, z in kept.items()}
    return {**still, **dict(zip(moving, arriving, strict=True))}, tangent


def _backward(gradients: PairGradients, slopes: KinkSlopes, x: Tensor, q_slopes: Tensor, name: str) -> Tensor:
    """∂q/∂(output) of the activation called ``name``."""
    kept: list[Tensor] = []

    def keep(module: object, given: object, output: Tensor) -> Tensor:  # noqa: ARG001
        kept.append(output.detach().requires_grad_())
        return kept[0].clone()

    with torch.enable_grad(), slopes.on(gradients.net):
        handle = gradients.net.get_submodule(name).register_forward_hook(keep)
        try:
            scores = as_rows(gradients.net(x), len(x))
            return torch.autograd.grad(scores, kept[0], q_slopes)[0]
        finally:
            handle.remove()
