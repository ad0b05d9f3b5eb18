"""Lanczos for the largest eigenvalue, not the one of largest modulus, of symmetric matrices given by products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from undertow.curvature.batched_vectors import inner, inverse, orthogonal_to
from undertow.curvature.lanczos_basis import LanczosBasis
from undertow.curvature.ritz import RitzValues, top_of_two
from undertow.jacobian.tridiagonal import miss_threshold

__all__ = ["WARM_NOISE", "WARM_SLACK", "LanczosEnd", "LanczosGoal", "SymmetricProducts", "lanczos"]

# As for Jacobians (undertow.jacobian.krylov): a warm start keeps a share of fresh randomness, which alone must rule
# out another direction whose eigenvalue is larger by more than WARM_SLACK times the tolerance.
WARM_NOISE = 0.3
WARM_SLACK = 4.0
_NEAR = 1.0  # times the tolerance is how far they may be from an eigenvalue, where gaps are wide
_APART = 0.2  # of the tolerance: what may be lost between vectors that are found and the rest
_ROUNDINGS = 8  # of each entry in a step: two subtractions, orthogonality once or twice, a division
_EVERY_STEP = 40  # up to which T is looked at after every product; then after every twentieth part


class SymmetricProducts(Protocol):
    """M symmetric matrices (P, P) as a product of vectors (M, P)."""

    def __call__(self, vectors: Tensor) -> Tensor: ...

    def take(self, index: Sequence[int]) -> SymmetricProducts: ...


@dataclass(frozen=True)
class LanczosGoal:
    """When a run has done enough: error ≤ max(rtol·|θ|, atol), of which ``rounding`` (M,) is spent already.

    After a warm start the error may be four times that. With ``floor`` (M,) all Ritz values above it have to be
    eigenvalues up to the tolerance. With ``pairs`` nothing is proved: that many Ritz vectors are wanted, so good that
    what is orthogonal to them can be looked at for itself.
    """

    rtol: float
    atol: float
    risk: float
    max_steps: int
    rounding: Tensor
    warm: bool = False
    floor: Tensor | None = None
    pairs: int = 0

    def whole(self, ritz: Tensor) -> Tensor:
        """The error that is asked for."""
        return torch.clamp_min(self.rtol * ritz.abs(), self.atol)

    def tolerance(self, ritz: Tensor, rounding: Tensor) -> Tensor:
        """What rounding leaves of the tolerance, half of it at least; and no more than rounding makes sense."""
        whole = self.whole(ritz)
        return torch.maximum(torch.maximum(whole - rounding, whole / 2), rounding)


@dataclass
class LanczosEnd:
    """What is known at the end, for every matrix: all in float64 but the vectors.

    ``vectors`` (M, c, P) are the Ritz vectors of the largest Ritz values ``values`` (M, c), and
    Ax − θx is ``tails`` (M, c) times the unit vector ``beyond`` (M, P). ``asymmetry`` is how far products were from
    symmetric, ``largest`` the largest coefficient, beside which that is small or not, and ``recurrence`` a bound on
    what the recurrence's own arithmetic has lost. NaN where products were not finite.
    """

    value: Tensor
    upper: Tensor
    residual: Tensor
    miss: Tensor
    steps: Tensor
    converged: Tensor
    vectors: Tensor
    values: Tensor
    tails: Tensor
    beyond: Tensor
    asymmetry: Tensor
    largest: Tensor
    recurrence: Tensor

    @property
    def images(self) -> Tensor:
        """A x for all Ritz vectors, (M, c, P), but for what is along the vectors the run was orthogonal to."""
        found = self.values.to(self.vectors)[:, :, None] * self.vectors
        return found + self.tails.to(self.vectors)[:, :, None] * self.beyond[:, None]


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
        self.basis = LanczosBasis(start)
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
            values=start.new_zeros(count, keep, dtype=torch.float64),
            tails=start.new_zeros(count, keep, dtype=torch.float64),
            beyond=torch.zeros_like(start),
            asymmetry=torch.zeros_like(nan),
            largest=torch.zeros_like(nan),
            recurrence=torch.zeros_like(nan),
        )

    def advance(self, image: Tensor | None) -> bool:
        """One step for all active matrices; False when none is left."""
        vector = self.basis.vector(self.step)
        onward = self.products(vector) if image is None else image.clone()  # from here on changed in place
        if self.unit is None:  # squares of very small and very large products are no numbers of float32
            size = torch.linalg.vector_norm(onward, ord=math.inf, dim=1)
            self.unit = torch.where((size > 0) & size.isfinite(), size, 1.0)
        onward.div_(self.unit[:, None])
        diagonal = inner(onward, vector)
        onward.addcmul_(vector, diagonal.to(onward)[:, None], value=-1)
        if self.step > 0:
            before = self.off[:, self.step - 1, None].to(onward)
            onward.addcmul_(self.basis.vector(self.step - 1), before, value=-1)
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
            self.basis.append(onward)
        if last or self.step <= _EVERY_STEP or self.step % (self.step // 20) == 0:
            self._check(onward, last)
        return len(self.active) > 0

    def _orthogonalised(self, onward: Tensor) -> tuple[Tensor, Tensor]:
        onward = orthogonal_to(self.against, onward)
        before = _norm(onward)
        # What is removed belongs to earlier vectors, and would be zero for a symmetric matrix but for rounding.
        onward, removed = self.basis.without(onward)
        self.asymmetry = torch.maximum(self.asymmetry, _norm(removed))
        off = _norm(onward)
        if bool((off < 0.7 * before).any()):
            onward = orthogonal_to(self.against, self.basis.without(onward)[0])
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
            known = self.basis.take(index)
            for _ in range(3):
                fresh = orthogonal_to(self.against[index], fresh)
                fresh = known.without(fresh.clone())[0]
                fresh = fresh * inverse(_norm(fresh)).to(fresh)[:, None]
            length = torch.maximum(length, floor)
            onward[index], off[index] = fresh * length.to(fresh)[:, None], length
        return onward, torch.where(self.largest > 0, off, 0.0)

    def _check(self, onward: Tensor, last: bool) -> None:
        """What is known by now; matrices whose bound is met leave, and those whose products are not finite.

        On the processor: T_k is a few numbers, whose eigenvalues take a GPU longer than the product did.
        """
        assert self.unit is not None
        diagonal, off = self.diagonal[:, : self.step].cpu(), self.off[:, : self.step].cpu()
        broken = ~(diagonal + off).isfinite().all(1)
        ritz = RitzValues(torch.where(broken[:, None], 0.0, diagonal), torch.where(broken[:, None], 0.0, off))
        unit = self.unit.double().cpu()
        rounding = (self.rounding + self._lost() + self.asymmetry * self.unit.double()).cpu()
        tolerance = self.goal.tolerance(ritz.value * unit, rounding) / unit
        closed = (off == 0).any(1)
        reach = tolerance * (WARM_SLACK if self.goal.warm else 1.0)
        if self.goal.pairs:
            bounded = torch.zeros_like(closed)
            good = (closed | self._settled(ritz, unit, rounding)) & ~broken
        else:
            bounded = closed | (ritz.log_polynomial(ritz.value + reach) >= self.log_promise)
            good = bounded & (self._residual(ritz, unit) <= tolerance) & ~broken
        leaving = self.waiting.cpu() & (good | broken | last)
        if bool(leaving.any()):
            proved = torch.where(bounded, ritz.value + reach, math.inf)
            bound = torch.minimum(ritz.upper_bound(self.log_promise), proved)
            bound = torch.where(closed, ritz.value, bound)
            self._write(leaving.nonzero()[:, 0], ritz, bound, good, broken, onward)
            self._drop(last)

    def _residual(self, ritz: RitzValues, unit: Tensor) -> Tensor:
        """‖Ax − θx‖ of the largest Ritz value; where more are above the floor, what it has to be of them."""
        if self.goal.floor is None:
            return ritz.residual
        high = ritz.values > (self.goal.floor[self.active].cpu() / unit)[:, None]
        high[:, -1] = True
        several = torch.where(high, ritz.residuals, 0.0).amax(1) / _APART  # they join those that are found
        return torch.where(high.sum(1) > 1, several, ritz.residual)

    def _settled(self, ritz: RitzValues, unit: Tensor, rounding: Tensor) -> Tensor:
        """Whether the first pairs are good enough beside the next one, by the bound that will be used of them."""
        if self.step <= self.goal.pairs:
            return torch.zeros_like(ritz.value, dtype=torch.bool)
        next_value, found = ritz.values[:, -self.goal.pairs - 1], ritz.values[:, -self.goal.pairs :]
        residuals = ritz.residuals[:, -self.goal.pairs :]
        apart = torch.linalg.vector_norm(residuals, dim=1)
        least = torch.minimum(next_value.abs(), found.abs().amin(1))
        allowed = self.goal.tolerance(least * unit, rounding) / unit
        above = next_value + allowed + ritz.residuals[:, -self.goal.pairs - 1]
        gap = (found - above[:, None]).clamp_min(0)
        lost = top_of_two(torch.zeros_like(gap), -gap, apart[:, None])
        # Early Ritz values lie anywhere, also far apart: they have to be near eigenvalues for that to mean a gap.
        return (lost <= _APART * allowed[:, None]).all(1) & (residuals <= _NEAR * allowed[:, None]).all(1)

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
        end.asymmetry[place] = (self.asymmetry * self.unit.double())[index]
        end.largest[place] = (self.largest * self.unit.double())[index]
        end.recurrence[place] = self._lost()[index]
        count = min(self.keep, self.step)
        coordinates = ritz.coordinates(count).to(here)
        basis = self.basis.take(index)
        known = coordinates[index]
        if self.step < len(self.basis):  # the next vector is in it already
            known = torch.cat([known, torch.zeros_like(known[:, :, :1])], dim=2)
        end.vectors[place, :count] = basis.combined(known)
        of_unit = (self.off[:, self.step - 1] * self.unit)[:, None]
        end.tails[place, :count] = (of_unit * coordinates[:, :, -1])[index]
        values = torch.where(sane[:, None], ritz.values[:, -count:].flip(1) * unit[:, None], math.nan)
        end.values[place, :count] = values.to(here)[index]
        end.beyond[place] = onward[index]
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
            self.basis, self.against = self.basis.take(index), self.against[index]
            self.diagonal, self.off = self.diagonal[index], self.off[index]
            self.largest, self.asymmetry = self.largest[index], self.asymmetry[index]
            self.unit, self.rounding = self.unit[index], self.rounding[index]


def _norm(vector: Tensor) -> Tensor:
    return inner(vector, vector).sqrt()
