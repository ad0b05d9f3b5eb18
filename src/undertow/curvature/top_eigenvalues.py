"""The largest eigenvalue of several networks' curvature in one precision, by Lanczos or whole, and rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from undertow.core.errors import ModelError
from undertow.curvature.batched_vectors import unit
from undertow.curvature.curvature_products import CurvatureProducts
from undertow.curvature.lanczos import WARM_NOISE, LanczosGoal, lanczos
from undertow.curvature.product_rounding import ROUNDING_SAFETY, rounding_at, rounding_on_a_share

__all__ = [
    "TopEigenvalues",
    "TopGoal",
    "drawn",
    "largest_by_lanczos",
    "mixed",
    "refuse_asymmetry",
    "rounding_by_repeating",
    "whole_matrix",
]

_ASYMMETRY = 1e-4  # beside the largest coefficient
_TINY = 1e-32  # products in float32 that are less hold too few digits, or have become zero


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
    """For M networks: values, errors (M, k) with rounding in them; residuals (M, k); vectors (M, k, P); others (M,)."""

    values: Tensor
    errors: Tensor
    vectors: Tensor
    residuals: Tensor
    rounding: Tensor
    miss: Tensor
    steps: Tensor
    converged: Tensor

    def spoilt(self, goal: TopGoal) -> Tensor:
        """Where rounding takes more than half of the tolerance, nothing is known, or all may have become zero, (M,)."""
        small = (self.rounding[:, None] <= goal.whole(self.values) / 2).all(1)
        there = self.values.abs().amax(1) >= _TINY
        return ~(small & there & self.values.isfinite().all(1) & self.errors.isfinite().all(1))

    def replaced(self, index: Tensor, other: TopEigenvalues) -> TopEigenvalues:
        """These with ``other`` in the place of the networks ``index``; vectors in the precision of these."""
        names = ("values", "errors", "vectors", "residuals", "rounding", "miss", "steps", "converged")
        return replace(
            self,
            **{
                name: getattr(self, name).index_copy(0, index, getattr(other, name).to(getattr(self, name)))
                for name in names
            },
        )


def largest_by_lanczos(products: CurvatureProducts, goal: TopGoal) -> TopEigenvalues:
    """The largest, from one run with a random start."""
    plain = unit(drawn(products, goal.generator))
    known = products(plain) if goal.warm is None else None
    rounding = rounding_by_repeating(products, plain, 0, image=known)
    share = 1.0 if goal.warm is None else WARM_NOISE / (1 + WARM_NOISE)
    start = plain if goal.warm is None else mixed(goal.warm[:, 0], plain)
    steps = LanczosGoal(goal.rtol, goal.atol, goal.risk, goal.max_steps, rounding, goal.warm is not None)
    end = lanczos(products, start, steps, first=known, share=share)
    refuse_asymmetry(products, end.asymmetry, end.largest, rounding)
    # Hx as the run knows it, so that where all samples are looked at what the recurrence itself has rounded is seen.
    again = ROUNDING_SAFETY * rounding_on_a_share(products, end.vectors[:, 0], 1, image=end.images[:, 0])
    rounding = torch.maximum(rounding, again) + end.asymmetry + end.recurrence
    rounding = rounding.nan_to_num(nan=math.inf)
    error = (end.upper - end.value).clamp_min(0).nan_to_num(nan=math.inf, posinf=math.inf) + rounding
    return TopEigenvalues(
        end.value[:, None],
        error[:, None],
        end.vectors,
        end.residual[:, None],
        rounding,
        end.miss,
        end.steps,
        end.converged,
    )


def rounding_by_repeating(
    products: CurvatureProducts, vector: Tensor, draw: int, *, image: Tensor | None
) -> Tensor:
    """‖E‖ for what rounding adds to the matrices, from what it does to one random vector, (M,)."""
    moved = rounding_on_a_share(products, vector, draw, image=image)
    return math.sqrt(products.size) * ROUNDING_SAFETY * moved


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
    random = drawn(products, goal.generator)
    seen = (random, torch.bmm(columns, random.double()[:, :, None])[:, :, 0])
    best = (vectors[:, 0].to(random), torch.bmm(columns, vectors[:, 0, :, None])[:, :, 0])
    rounding = torch.stack(
        [rounding_at(products, v, draw, image=image) for draw, (v, image) in enumerate((seen, best))]
    )
    rounding = ROUNDING_SAFETY * rounding.amax(0)
    # eigh errs by a few roundings of the largest eigenvalue in modulus
    rounding = rounding + 8 * torch.finfo(torch.float64).eps * symmetric.flatten(1).norm(dim=1)
    rounding = torch.where(broken, math.inf, rounding.nan_to_num(nan=math.inf))
    gap = (columns - columns.mT).flatten(1).norm(dim=1)
    refuse_asymmetry(products, gap, symmetric.flatten(1).norm(dim=1), math.sqrt(products.size) * rounding)
    rounding = rounding + gap
    values = torch.where(broken[:, None], math.nan, values)
    nothing = torch.zeros_like(rounding)
    steps = torch.full_like(rounding, products.size, dtype=torch.long)
    return TopEigenvalues(
        values,
        rounding[:, None].expand(-1, top).clone(),
        vectors,
        torch.zeros_like(values),
        rounding,
        nothing,
        steps,
        ~broken,
    )


def refuse_asymmetry(
    products: CurvatureProducts, asymmetry: Tensor, largest: Tensor, rounding: Tensor
) -> None:
    """Products that are not those of a symmetric matrix, by more than rounding can explain, are no Hessian's.

    Asymmetry too small to be refused is added to the error, and in float32 float64 will tell.
    """
    found = (asymmetry > _ASYMMETRY * largest) & (asymmetry > 10 * rounding) & asymmetry.isfinite()
    if products.dtype is torch.float64 and bool(found.any()):
        raise ModelError(
            "the products are not those of a symmetric matrix: some layer's backward pass is computed outside of "
            "autograd (.data, numpy, a custom Function), or by a kernel whose own derivative is wrong, so its second "
            "derivative is lost; write it with differentiable operations."
        )


def drawn(products: CurvatureProducts, generator: torch.Generator) -> Tensor:
    """A Gaussian vector, the same for all networks, so that each is measured as it would be alone: (M, P)."""
    vector = torch.randn(products.size, generator=generator, dtype=torch.float64, device=generator.device)
    return vector.to(dtype=products.dtype, device=products.device).expand(products.count, -1)


def mixed(warm: Tensor, random: Tensor) -> Tensor:
    """Unit vectors with a share of randomness: miss probabilities bound a density, around any fixed component."""
    random = unit(random)
    return unit(unit(warm.to(random)) + WARM_NOISE * random)
