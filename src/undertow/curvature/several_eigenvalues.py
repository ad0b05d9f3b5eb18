"""Several of the largest eigenvalues of several networks' curvature, from bases that they share."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from undertow.curvature.batched_vectors import orthogonal_to, unit
from undertow.curvature.curvature_products import CurvatureProducts
from undertow.curvature.lanczos import WARM_NOISE, WARM_SLACK, LanczosEnd, LanczosGoal, lanczos
from undertow.curvature.product_rounding import ROUNDING_SAFETY, rounding_on_a_share
from undertow.curvature.ritz import top_of_two
from undertow.curvature.top_eigenvalues import (
    TopEigenvalues,
    TopGoal,
    drawn,
    mixed,
    refuse_asymmetry,
    rounding_by_repeating,
)

__all__ = ["several_by_lanczos"]

# Of the tolerance is what a run has to prove: vectors that are not quite found take from the rest.
_NARROWER = 0.8
_MORE_RUNS = 2  # than eigenvalues: were all equal, every run would find one


def several_by_lanczos(products: CurvatureProducts, goal: TopGoal) -> TopEigenvalues:
    """The k largest: one run finds the first k − 1 together, another, orthogonal to these, proves that they are.

    With orthonormal Q, (P, k − 1), Θ = QᵀAQ, C = (I − QQᵀ)AQ and μ ≥ λ_1 of A on the orthogonal complement, which the
    second run's random start gives,

        A ≼ [[Θ, Cᵀ], [C, μI]] ,   so   λ_j ≤ λ_max [[θ_j, ‖C‖], [‖C‖, μ]]   for j < k,   and   λ_k ≤ μ

    (Courant–Fischer), however inexact Q is. Ritz values of all vectors together are never more than the eigenvalues
    (Cauchy). Of equal eigenvalues a run sees one; the next finds another, which then joins Q, and a further run proves
    again.
    """
    return _Several(products, goal).found()


@dataclass
class _Known:
    """Orthonormal vectors (M, k, P) and their images, Ritz values and upper bounds (M, k), and counts (M,)."""

    vectors: Tensor
    images: Tensor
    values: Tensor
    upper: Tensor
    miss: Tensor
    steps: Tensor
    rounding: Tensor

    def take(self, index: Tensor) -> _Known:
        return _Known(**{name: tensor[index] for name, tensor in vars(self).items()})

    def put(self, index: Tensor, other: _Known) -> None:
        for name, tensor in vars(self).items():
            tensor[index] = getattr(other, name).to(tensor)


class _Several:
    def __init__(self, products: CurvatureProducts, goal: TopGoal) -> None:
        self.products, self.goal = products, goal
        self.top = goal.top
        self.runs = self.top + _MORE_RUNS
        self.plain = unit(drawn(products, goal.generator))
        self.image = products(self.plain) if goal.warm is None else None
        self.rounding = rounding_by_repeating(products, self.plain, 0, image=self.image)

    def found(self) -> TopEigenvalues:
        known = self._first()
        done = self._done(known)
        for _ in range(self.runs - 1):
            index = (~done).nonzero()[:, 0]
            if len(index) == 0:
                break
            fewer = len(index) < self.products.count
            some = self.products.take(index.tolist()) if fewer else self.products
            index = index.to(known.values.device)
            known.put(index, self._next(some, known.take(index), index))
            done = done | self._done(known)
        return self._result(known, done)

    def _steps(self, index: Tensor, **options: object) -> LanczosGoal:
        goal = self.goal
        steps = LanczosGoal(
            _NARROWER * goal.rtol,
            _NARROWER * goal.atol,
            goal.risk / self.runs,
            max(goal.max_steps, self.top),
            self.rounding[index],
            goal.warm is not None,
        )
        return replace(steps, **options)  # type: ignore[arg-type]

    def _first(self) -> _Known:
        warm, every = self.goal.warm, torch.arange(self.products.count, device=self.plain.device)
        start = self.plain if warm is None else mixed(warm.sum(1), self.plain)
        share = 1.0 if warm is None else WARM_NOISE / (1 + WARM_NOISE)
        steps = self._steps(every, pairs=self.top - 1)
        end = lanczos(self.products, start, steps, first=self.image, share=share, keep=self.top)
        vectors = _filled(end.vectors)
        values, vectors, images = _rotated(vectors, end.images, self.top)
        upper = end.upper[:, None].expand(-1, self.top).clone()
        return _Known(vectors, images, values, upper, end.miss, end.steps, self._rounded(end, every))

    def _next(self, products: CurvatureProducts, known: _Known, index: Tensor) -> _Known:
        """One more run, orthogonal to all but the last of what is known."""
        warm, few = self.goal.warm, self.top - 1
        basis, images = known.vectors[:, :few], known.images[:, :few]
        rest = images - torch.bmm(torch.bmm(images, basis.mT), basis)
        apart = torch.linalg.matrix_norm(torch.linalg.qr(rest.double().mT).R, ord=2)
        likely = known.vectors[:, few] if warm is None else warm[index, few]
        random = drawn(products, self.goal.generator)
        start = unit(mixed(orthogonal_to(basis, likely), orthogonal_to(basis, random)))
        end = lanczos(
            products,
            unit(orthogonal_to(basis, start)),
            self._steps(index, floor=known.values[:, few]),
            against=basis,
            share=WARM_NOISE / (1 + WARM_NOISE),
            keep=self.top,
        )
        bound = top_of_two(known.values[:, :few], end.upper[:, None], apart[:, None])
        upper = torch.cat([bound, end.upper[:, None]], dim=1).nan_to_num(nan=math.inf)
        # The run has seen its images less what is along the vectors that it was orthogonal to.
        fresh = _unit_rows(end.vectors - torch.bmm(torch.bmm(end.vectors, basis.mT), basis))
        along = torch.bmm(torch.bmm(fresh, images.mT), basis)
        values, vectors, images = _rotated(
            torch.cat([basis, fresh], dim=1), torch.cat([images, end.images + along], dim=1), self.top
        )
        upper = torch.minimum(known.upper, upper).cummin(1).values
        miss, steps = (known.miss + end.miss).clamp_max(1.0), known.steps + end.steps
        rounding = torch.maximum(known.rounding, self._rounded(end, index))
        return _Known(vectors, images, values, upper, miss, steps, rounding)

    def _rounded(self, end: LanczosEnd, index: Tensor) -> Tensor:
        refuse_asymmetry(self.products, end.asymmetry, end.largest, self.rounding[index])
        return self.rounding[index] + end.asymmetry + end.recurrence

    def _errors(self, known: _Known) -> Tensor:
        errors = (known.upper - known.values).clamp_min(0) + known.rounding[:, None]
        return errors.nan_to_num(nan=math.inf, posinf=math.inf)

    def _done(self, known: _Known) -> Tensor:
        """Where all errors are as small as they were to be, or nothing can be known, (M,) on the processor."""
        slack = 1.0 if self.goal.warm is None else WARM_SLACK
        small = self._errors(known) <= slack * self.goal.whole(known.values) * (1 + 1e-9)
        hopeless = known.rounding[:, None] > self.goal.whole(known.values) / 2  # float64 next, or no better
        done = (small | hopeless | ~known.values.isfinite()).all(1)
        return done.cpu()

    def _result(self, known: _Known, done: Tensor) -> TopEigenvalues:
        again = rounding_on_a_share(self.products, known.vectors[:, 0], 1, image=known.images[:, 0])
        rounding = torch.maximum(known.rounding, ROUNDING_SAFETY * again).nan_to_num(nan=math.inf)
        known = replace(known, rounding=rounding)
        residuals = known.images - known.values.to(known.vectors)[:, :, None] * known.vectors
        return TopEigenvalues(
            known.values,
            self._errors(known),
            known.vectors,
            torch.linalg.vector_norm(residuals, dim=2, dtype=torch.float64),
            rounding,
            known.miss,
            known.steps,
            done.to(known.values.device),
        )


def _rotated(vectors: Tensor, images: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Ritz values of the span of orthonormal rows, some of which may be zero, in falling order, with vectors."""
    small = torch.bmm(images.double(), vectors.double().mT)
    broken = ~small.isfinite().all(2).all(1)
    small = torch.where(broken[:, None, None], 0.0, (small + small.mT) / 2)
    # A row of zeros is no vector, and its eigenvalue of zero none: it goes below all others.
    missing = vectors.double().square().sum(2) < 0.5
    small -= torch.diag_embed(missing * (1 + 4 * small.abs().sum((1, 2)))[:, None])
    values, turn = torch.linalg.eigh(small)
    values, turn = values[:, -count:].flip(1), turn[:, :, -count:].flip(2).mT
    values = torch.where(broken[:, None], math.nan, values)
    return values, torch.bmm(turn.to(vectors), vectors), torch.bmm(turn.to(images), images)


def _filled(vectors: Tensor) -> Tensor:
    """Rows (M, k, P) with random orthonormal ones in the place of zeros: of a matrix that vanishes a run finds one."""
    missing = (vectors.double().square().sum(2) < 0.5).any(0).nonzero()[:, 0]
    generator = torch.Generator().manual_seed(1)
    for place in missing.tolist():
        random = torch.randn(vectors.shape[2], generator=generator, dtype=torch.float64).to(vectors)
        random = random.expand(len(vectors), -1)
        for _ in range(2):
            random = unit(orthogonal_to(vectors, random))
        empty = vectors[:, place].double().square().sum(1) < 0.5
        vectors[:, place] = torch.where(empty[:, None], random, vectors[:, place])
    return vectors


def _unit_rows(vectors: Tensor) -> Tensor:
    """Rows (M, k, P) of length one, and zeros as they are."""
    lengths = torch.linalg.vector_norm(vectors, dim=2, keepdim=True, dtype=torch.float64)
    return torch.where(lengths > 0.5, vectors / lengths.to(vectors).clamp_min(0.5), 0.0).to(vectors)
