"""The largest eigenvalues of several networks' curvature in one precision, by Lanczos or whole, and rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from undertow.core.errors import ModelError
from undertow.curvature.batched_vectors import orthogonal_to, unit
from undertow.curvature.curvature_products import CurvatureProducts
from undertow.curvature.lanczos import WARM_NOISE, LanczosEnd, LanczosGoal, lanczos
from undertow.curvature.product_rounding import ROUNDING_SAFETY, rounding_at, rounding_on_a_share

__all__ = [
    "TopEigenvalues",
    "TopGoal",
    "by_lanczos",
    "whole_matrix",
]

_ASYMMETRY = 1e-2


@dataclass(frozen=True)
class TopGoal:
    """How many eigenvalues, and how well; ``warm`` (M, top, P) are vectors of an earlier call."""

    top: int
    rtol: float
    atol: float
    risk: float
    max_steps: int
    generator: torch.Generator
    warm: Tensor | None = None

    def whole(self, values: Tensor) -> Tensor:
        """The error that is asked for, the shape of the values."""
        return torch.clamp_min(self.rtol * values.abs(), self.atol)


@dataclass(frozen=True)
class TopEigenvalues:
    """For M networks: values, errors (M, k) with rounding in them; vectors (M, k, P); the rest (M,)."""

    values: Tensor
    errors: Tensor
    vectors: Tensor
    residual: Tensor
    rounding: Tensor
    miss: Tensor
    steps: Tensor
    converged: Tensor

    def spoilt(self, goal: TopGoal) -> Tensor:
        """Where rounding takes more than half of the tolerance, or nothing is known, (M,)."""
        small = (self.rounding[:, None] <= goal.whole(self.values) / 2).all(1)
        return ~(small & self.values.isfinite().all(1) & self.errors.isfinite().all(1))

    def replaced(self, index: Tensor, other: TopEigenvalues) -> TopEigenvalues:
        """These with ``other`` in the place of the networks ``index``; vectors in the precision of these."""
        names = ("values", "errors", "vectors", "residual", "rounding", "miss", "steps", "converged")
        return replace(
            self,
            **{
                name: getattr(self, name).index_copy(0, index, getattr(other, name).to(getattr(self, name)))
                for name in names
            },
        )


def by_lanczos(products: CurvatureProducts, goal: TopGoal) -> TopEigenvalues:
    """The largest by Lanczos; further ones by Lanczos orthogonal to those before.

    λ_{j+1} is at most the largest eigenvalue on any orthogonal complement of j vectors (Courant–Fischer), so every
    run's upper bound is one of the next eigenvalue, however inexact the vectors before are, and equal ones are found as
    well. The Ritz values of all vectors together are never more than the eigenvalues (Cauchy).
    """
    size = products.size
    plain = unit(_drawn(products, goal.generator))
    known = products(plain) if goal.warm is None else None
    rounding = math.sqrt(size) * ROUNDING_SAFETY * rounding_on_a_share(products, plain, 0, image=known)
    share = 1.0 if goal.warm is None else WARM_NOISE / (1 + WARM_NOISE)
    start = plain if goal.warm is None else _mixed(goal.warm[:, 0], plain)
    steps = LanczosGoal(
        goal.rtol, goal.atol, goal.risk / goal.top, goal.max_steps, rounding, goal.warm is not None
    )
    ends = [lanczos(products, start, steps, first=known, share=share, keep=goal.top)]
    if goal.top == 1:
        return _one(products, ends[0], rounding)
    vectors = ends[0].vectors[:, :1]
    for place in range(1, min(goal.top, size)):
        likely = ends[0].vectors[:, place] if goal.warm is None else goal.warm[:, place]
        mixed = _mixed(
            orthogonal_to(vectors, likely), orthogonal_to(vectors, _drawn(products, goal.generator))
        )
        share = WARM_NOISE / (1 + WARM_NOISE)
        ends.append(lanczos(products, unit(mixed), steps, against=vectors, share=share))
        fresh = unit(orthogonal_to(vectors, orthogonal_to(vectors, ends[-1].vectors[:, 0])))
        vectors = torch.cat([vectors, fresh[:, None]], dim=1)
    return _several(products, ends, vectors, rounding)


def _one(products: CurvatureProducts, end: LanczosEnd, rounding: Tensor) -> TopEigenvalues:
    _refuse_asymmetry(products, end.asymmetry, rounding, end.value)
    vector = end.vectors[:, 0]
    # Hx as the run knows it, so that where all samples are looked at what the recurrence itself has rounded is seen.
    image = end.value.to(vector)[:, None] * vector + end.beyond
    again = ROUNDING_SAFETY * rounding_on_a_share(products, vector, 1, image=image)
    rounding = (torch.maximum(rounding, again) + end.recurrence).nan_to_num(nan=math.inf)
    error = (end.upper - end.value).clamp_min(0).nan_to_num(nan=math.inf, posinf=math.inf) + rounding
    return TopEigenvalues(
        end.value[:, None],
        error[:, None],
        end.vectors[:, :1],
        end.residual,
        rounding,
        end.miss,
        end.steps,
        end.converged,
    )


def _several(
    products: CurvatureProducts, ends: list[LanczosEnd], vectors: Tensor, rounding: Tensor
) -> TopEigenvalues:
    count = vectors.shape[1]
    images = torch.stack([products(vectors[:, place]) for place in range(count)], dim=1)
    again = ROUNDING_SAFETY * rounding_on_a_share(products, vectors[:, 0], 1, image=images[:, 0])
    rounding = torch.maximum(rounding, again).nan_to_num(nan=math.inf)
    small = torch.bmm(images.double(), vectors.double().mT)
    broken = ~small.isfinite().all(2).all(1)
    small = torch.where(broken[:, None, None], 0.0, (small + small.mT) / 2)
    values, turn = torch.linalg.eigh(small)
    values, turn = values.flip(1), turn.flip(2).mT
    values = torch.where(broken[:, None], math.nan, values)
    vectors, images = torch.bmm(turn.to(vectors), vectors), torch.bmm(turn.to(images), images)
    residuals = torch.linalg.vector_norm(
        images - values.to(vectors)[:, :, None] * vectors, dim=2, dtype=torch.float64
    )
    asymmetry = torch.stack([end.asymmetry for end in ends]).amax(0)
    _refuse_asymmetry(products, asymmetry, rounding, values[:, 0])
    upper = torch.stack([end.upper for end in ends], dim=1).cummin(1).values
    errors = (upper - values).clamp_min(0).nan_to_num(nan=math.inf, posinf=math.inf) + rounding[:, None]
    return TopEigenvalues(
        values,
        errors,
        vectors,
        residuals[:, 0],
        rounding,
        torch.stack([end.miss for end in ends]).sum(0).clamp_max(1.0),
        torch.stack([end.steps for end in ends]).sum(0),
        torch.stack([end.converged for end in ends]).all(0),
    )


def whole_matrix(products: CurvatureProducts, goal: TopGoal) -> TopEigenvalues:
    """All eigenvalues of the matrix, column by column, in the precision of the products."""
    identity = torch.eye(products.size, dtype=products.dtype, device=products.device)
    columns = torch.stack([products(row.expand(products.count, -1)) for row in identity], dim=2).double()
    broken = ~columns.isfinite().all(2).all(1)
    columns = torch.where(broken[:, None, None], 0.0, columns)
    symmetric = (columns + columns.mT) / 2
    values, vectors = torch.linalg.eigh(symmetric)
    top = min(goal.top, products.size)
    values, vectors = values[:, -top:].flip(1), vectors[:, :, -top:].flip(2).mT
    drawn = _drawn(products, goal.generator)
    seen = (drawn, torch.bmm(columns, drawn.double()[:, :, None])[:, :, 0])
    best = (vectors[:, 0].to(drawn), torch.bmm(columns, vectors[:, 0, :, None])[:, :, 0])
    rounding = torch.stack(
        [rounding_at(products, v, draw, image=image) for draw, (v, image) in enumerate((seen, best))]
    )
    rounding = ROUNDING_SAFETY * rounding.amax(0)
    # eigh errs by a few roundings of the largest eigenvalue in modulus
    rounding = rounding + 8 * torch.finfo(torch.float64).eps * symmetric.flatten(1).norm(dim=1)
    rounding = torch.where(broken, math.inf, rounding.nan_to_num(nan=math.inf))
    gap = (columns - columns.mT).flatten(1).norm(dim=1) / symmetric.flatten(1).norm(dim=1).clamp_min(1e-300)
    _refuse_asymmetry(products, gap, rounding, values.abs().amax(1))
    values = torch.where(broken[:, None], math.nan, values)
    nothing = torch.zeros_like(rounding)
    steps = torch.full_like(rounding, products.size, dtype=torch.long)
    return TopEigenvalues(
        values,
        rounding[:, None].expand(-1, top).clone(),
        vectors,
        nothing,
        rounding,
        nothing,
        steps,
        ~broken,
    )


def _refuse_asymmetry(
    products: CurvatureProducts, asymmetry: Tensor, rounding: Tensor, value: Tensor
) -> None:
    """Products that are not those of a symmetric matrix, by more than rounding can explain, are no Hessian's."""
    if products.dtype is not torch.float64 and bool((rounding > _ASYMMETRY * value.abs()).any()):
        return  # float64 will tell
    sane = value.isfinite() & (rounding <= _ASYMMETRY * value.abs())
    if bool((sane & (asymmetry > _ASYMMETRY)).any()):
        raise ModelError(
            "the products are not those of a symmetric matrix: some layer's backward pass is computed outside of "
            "autograd (.data, numpy, a custom Function), so its second derivative is lost; write it with "
            "differentiable operations."
        )


def _drawn(products: CurvatureProducts, generator: torch.Generator) -> Tensor:
    """A Gaussian vector, the same for all networks, so that each is measured as it would be alone: (M, P)."""
    drawn = torch.randn(products.size, generator=generator, dtype=torch.float64, device=generator.device)
    return drawn.to(dtype=products.dtype, device=products.device).expand(products.count, -1)


def _mixed(warm: Tensor, random: Tensor) -> Tensor:
    """Unit vectors with a share of randomness: miss probabilities bound a density, around any fixed component."""
    random = unit(random)
    return unit(unit(warm.to(random)) + WARM_NOISE * random)
