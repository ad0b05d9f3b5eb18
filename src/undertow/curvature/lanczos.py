"""Lanczos for the largest eigenvalue, not the one of largest modulus, of symmetric matrices given by products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from undertow.curvature.batched_vectors import inner, inverse, orthogonal_to
from undertow.curvature.ritz import RitzValues
from undertow.jacobian.tridiagonal import miss_threshold

__all__ = ["WARM_NOISE", "LanczosEnd", "LanczosGoal", "SymmetricProducts", "lanczos"]

# As for Jacobians (undertow.jacobian.krylov): a warm start keeps a share of fresh randomness, which alone must rule
# out, with even odds, another direction whose eigenvalue is larger by twice the tolerance.
WARM_NOISE = 0.3
_WARM_RISK = 0.5
_WARM_SLACK = 2.0
_ROUNDINGS = 8  # of each entry in a step: two subtractions, orthogonality once or twice, a division
_EVERY_STEP = 40  # up to which T is looked at after every product; then after every twentieth part


class SymmetricProducts(Protocol):
    """M symmetric matrices (P, P) as a product of vectors (M, P)."""

    def __call__(self, vectors: Tensor) -> Tensor: ...

    def take(self, index: Sequence[int]) -> SymmetricProducts: ...


@dataclass(frozen=True)
class LanczosGoal:
    """When a run has done enough: error ≤ max(rtol·|θ|, atol), of which ``rounding`` (M,) is spent already."""

    rtol: float
    atol: float
    risk: float
    max_steps: int
    rounding: Tensor
    warm: bool = False

    def tolerance(self, ritz: Tensor, rounding: Tensor) -> Tensor:
        """What rounding leaves of the tolerance, half of it at least; and no more than rounding makes sense."""
        whole = torch.clamp_min(self.rtol * ritz.abs(), self.atol)
        return torch.maximum(torch.maximum(whole - rounding, whole / 2), rounding)


@dataclass
class LanczosEnd:
    """What is known at the end, for every matrix: all in float64 but the vectors.

    ``vectors`` (M, c, P) are the Ritz vectors of the largest Ritz values, ``beyond`` (M, P) is Ax − θx for the first,
    ``first`` (M, P) the image of the start. ``asymmetry`` is how far products were from symmetric, in units
    of the largest coefficient, ``recurrence`` a bound on what the recurrence's own arithmetic has lost. NaN where
    products were not finite.
    """

    value: Tensor
    upper: Tensor
    residual: Tensor
    miss: Tensor
    steps: Tensor
    converged: Tensor
    vectors: Tensor
    beyond: Tensor
    asymmetry: Tensor
    recurrence: Tensor


def lanczos(
    products: SymmetricProducts,
    start: Tensor,
    goal: LanczosGoal,
    *,
    first: Tensor | None = None,
    against: Tensor | None = None,
    share: float = 1.0,
    keep: int = 1,
) -> LanczosEnd:
    """Largest eigenvalues from unit vectors ``start`` (M, P), each matrix until its own bound meets the goal.

    θ ≤ λ_1 ≤ upper, where the second inequality fails with probability at most ``goal.risk``, if ``start`` is uniform
    on the sphere, or has a part of at least ``share`` that is. With orthonormal ``against`` (M, j, P), λ_1 is that
    of the matrix on their orthogonal complement, which is at least λ_{j+1} of the whole. ``first`` is the product of
    ``start``, if it is known already.

    The basis is orthogonalised at every step: P numbers for each step are little beside a product. Where the
    Krylov space closes to rounding, it goes on in a random direction, because closing by itself proves nothing.
    """
    run = _Run(products, start, goal, against, share, keep)
    image = first
    while run.advance(image):
        image = None
    return run.end


class _Run:
    def __init__(
        self,
        products: SymmetricProducts,
        start: Tensor,
        goal: LanczosGoal,
        against: Tensor | None,
        share: float,
        keep: int,
    ) -> None:
        count, size = start.shape
        self.products, self.goal, self.keep = products, goal, keep
        self.dimension = size - (0 if against is None else against.shape[1])
        self.max_steps = max(1, min(goal.max_steps, self.dimension))
        self.against = start.new_zeros(count, 0, size) if against is None else against.to(start)
        self.basis = start.new_empty(count, min(16, self.max_steps), size)
        self.basis[:, 0] = start
        stop_risk = _WARM_RISK if goal.warm else goal.risk
        self.log_target = -math.log(share * miss_threshold(size, stop_risk))
        self.log_promise = -math.log(share * miss_threshold(size, goal.risk))
        self.eps = torch.finfo(start.dtype).eps
        self.closing = 4 * self.eps * math.sqrt(size)
        self.diagonal = start.new_zeros(count, self.max_steps, dtype=torch.float64)
        self.off = torch.zeros_like(self.diagonal)
        self.largest = start.new_zeros(count, dtype=torch.float64)
        self.asymmetry = torch.zeros_like(self.largest)
        self.unit: Tensor | None = None
        self.rounding = goal.rounding
        self.step = 0
        self.active = torch.arange(count, device=start.device)
        self.waiting = torch.ones(count, dtype=torch.bool, device=start.device)
        nan = torch.full_like(self.largest, math.nan)
        self.end = LanczosEnd(
            value=nan,
            upper=torch.full_like(nan, math.inf),
            residual=torch.full_like(nan, math.inf),
            miss=torch.ones_like(nan),
            steps=torch.zeros_like(self.active),
            converged=torch.zeros_like(self.waiting),
            vectors=start.new_zeros(count, keep, size),
            beyond=torch.zeros_like(start),
            asymmetry=torch.zeros_like(nan),
            recurrence=torch.zeros_like(nan),
        )

    def advance(self, image: Tensor | None) -> bool:
        """One step for all active matrices; False when none is left."""
        vector = self.basis[:, self.step]
        onward = self.products(vector) if image is None else image.clone()  # from here on changed in place
        if self.unit is None:  # squares of very small and very large products are no numbers of float32
            size = torch.linalg.vector_norm(onward, ord=math.inf, dim=1)
            self.unit = torch.where((size > 0) & size.isfinite(), size, 1.0)
        onward.div_(self.unit[:, None])
        diagonal = inner(onward, vector)
        onward.addcmul_(vector, diagonal.to(onward)[:, None], value=-1)
        if self.step > 0:
            before = self.off[:, self.step - 1, None].to(onward)
            onward.addcmul_(self.basis[:, self.step - 1], before, value=-1)
        onward, off = self._orthogonalised(onward)
        self.diagonal[:, self.step] = diagonal
        self.largest = torch.maximum(self.largest, diagonal.abs() + off)
        self.step += 1
        if self.step < self.dimension:
            onward, off = self._kept_open(onward, off)
        else:
            off = torch.zeros_like(off)
        self.off[:, self.step - 1] = off
        onward.mul_(inverse(off).to(onward)[:, None])
        last = self.step >= self.max_steps
        if not last:
            self._append(onward)
        if last or self.step <= _EVERY_STEP or self.step % (self.step // 20) == 0:
            self._check(onward, last)
        return len(self.active) > 0

    def _orthogonalised(self, onward: Tensor) -> tuple[Tensor, Tensor]:
        onward = orthogonal_to(self.against, onward)
        before = _norm(onward)
        known = self.basis[:, : self.step + 1]
        # What is removed belongs to earlier vectors, and would be zero for a symmetric matrix but for rounding.
        removed = torch.bmm(known, onward[:, :, None])
        self.asymmetry = torch.maximum(self.asymmetry, _norm(removed[:, :, 0]))
        onward.unsqueeze(1).baddbmm_(removed.mT, known, alpha=-1)
        off = _norm(onward)
        if bool((off < 0.7 * before).any()):
            onward = orthogonal_to(self.against, orthogonal_to(known, onward))
            off = _norm(onward)
        return onward, off

    def _kept_open(self, onward: Tensor, off: Tensor) -> tuple[Tensor, Tensor]:
        """Where the next vector is mostly rounding: orthogonal once more, and a random one in the place of zero."""
        index = ((off <= self.closing * self.largest) & (self.largest > 0)).nonzero()[:, 0]
        if len(index) > 0:
            generator = torch.Generator().manual_seed(self.step + 1)  # from 0 the starts are drawn
            noise = torch.randn(onward.shape[1], generator=generator, dtype=torch.float64).to(onward)
            floor = self.eps * self.largest[index]
            length = off[index]
            own = onward[index] * inverse(length).to(onward)[:, None]
            fresh = torch.where((length > floor)[:, None], own, noise / noise.norm())
            for _ in range(3):
                fresh = orthogonal_to(self.against[index], fresh)
                fresh = orthogonal_to(self.basis[index, : self.step], fresh)
                fresh = fresh * inverse(_norm(fresh)).to(fresh)[:, None]
            length = torch.maximum(length, floor)
            onward[index], off[index] = fresh * length.to(fresh)[:, None], length
        return onward, torch.where(self.largest > 0, off, 0.0)

    def _append(self, vector: Tensor) -> None:
        if self.step == self.basis.shape[1]:
            more = min(self.basis.shape[1], self.max_steps - self.step)
            self.basis = torch.cat(
                [self.basis, self.basis.new_empty(len(vector), more, vector.shape[1])], dim=1
            )
        self.basis[:, self.step] = vector

    def _check(self, onward: Tensor, last: bool) -> None:
        """What is known by now; matrices whose bound is met leave, and those whose products are not finite.

        On the processor: T_k is a few numbers, whose eigenvalues take a GPU longer than the product did.
        """
        assert self.unit is not None
        diagonal, off = self.diagonal[:, : self.step].cpu(), self.off[:, : self.step].cpu()
        broken = ~(diagonal + off).isfinite().all(1)
        ritz = RitzValues(torch.where(broken[:, None], 0.0, diagonal), torch.where(broken[:, None], 0.0, off))
        unit = self.unit.double().cpu()
        rounding = (self.rounding + self._lost()).cpu()
        tolerance = self.goal.tolerance(ritz.value * unit, rounding) / unit
        closed = (off == 0).any(1)
        reach = tolerance * (_WARM_SLACK if self.goal.warm else 1.0)
        bounded = closed | (ritz.log_polynomial(ritz.value + reach) >= self.log_target)
        good = bounded & (ritz.residual <= tolerance) & ~broken
        leaving = self.waiting.cpu() & (good | broken | last)
        if bool(leaving.any()):
            proved = torch.where(
                bounded, ritz.value + reach, math.inf
            )  # with even odds only, from a warm start
            bound = ritz.upper_bound(self.log_promise)
            bound = bound if self.goal.warm else torch.minimum(bound, proved)
            bound = torch.where(closed, ritz.value, bound)
            self._write(leaving.nonzero()[:, 0], ritz, bound, good, broken, onward)
            self._drop(last)

    def _write(
        self, index: Tensor, ritz: RitzValues, bound: Tensor, good: Tensor, broken: Tensor, onward: Tensor
    ) -> None:
        assert self.unit is not None
        upper = torch.maximum(ritz.value + ritz.residual, bound)
        closed = (self.off[:, : self.step] == 0).any(1).cpu()
        log_miss = math.log(self.goal.risk) + self.log_promise - ritz.log_polynomial(upper)
        miss = torch.where(closed, 0.0, log_miss.exp().clamp_max(1.0))
        unit, end = self.unit.double().cpu(), self.end
        sane = ~broken
        here = onward.device
        told = torch.stack(
            [
                torch.where(sane, ritz.value * unit, math.nan),
                torch.where(sane, upper * unit, math.inf),
                torch.where(sane, ritz.residual * unit, math.inf),
                miss,
            ]
        )[:, index].to(here)
        converged, index = good[index].to(here), index.to(here)
        place = self.active[index]
        end.value[place], end.upper[place], end.residual[place], end.miss[place] = told
        end.steps[place] = self.step
        end.converged[place] = converged
        end.asymmetry[place] = (self.asymmetry * inverse(self.largest))[index]
        end.recurrence[place] = self._lost()[index]
        count = min(self.keep, self.step)
        coordinates = ritz.coordinates(count).to(here)
        every = len(index) == len(self.active)  # then the basis need not be copied
        basis = self.basis[:, : self.step] if every else self.basis[index, : self.step]
        end.vectors[place, :count] = torch.bmm(coordinates[index].to(basis), basis)
        tail = self.off[:, self.step - 1] * coordinates[:, 0, -1] * self.unit
        end.beyond[place] = (tail.to(onward)[:, None] * onward)[index]
        self.waiting[index] = False

    def _lost(self) -> Tensor:
        """What the recurrence has rounded: each step a few times, by no more than its coefficients, independently."""
        assert self.unit is not None
        return _ROUNDINGS * self.eps * math.sqrt(self.step) * self.largest * self.unit.double()

    def _drop(self, last: bool) -> None:
        """Take finished matrices out of the batch, once that pays for what has to be recorded again."""
        index = self.waiting.nonzero()[:, 0]
        if last or len(index) == 0:
            self.active = self.active[:0]
        elif len(index) <= 0.75 * len(self.waiting):
            assert self.unit is not None
            self.products = self.products.take(index.tolist())
            self.active, self.waiting = self.active[index], self.waiting[index]
            self.basis, self.against = self.basis[index], self.against[index]
            self.diagonal, self.off = self.diagonal[index], self.off[index]
            self.largest, self.asymmetry = self.largest[index], self.asymmetry[index]
            self.unit, self.rounding = self.unit[index], self.rounding[index]


def _norm(vector: Tensor) -> Tensor:
    return inner(vector, vector).sqrt()
