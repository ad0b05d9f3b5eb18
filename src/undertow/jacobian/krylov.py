"""Batched Lanczos for the largest singular value of every sample's Jacobian, with an error bound for each."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.jacobian import tridiagonal
from undertow.jacobian.lanczos_findings import Findings, Krylov
from undertow.jacobian.lanczos_vectors import WARM_NOISE, inverse_or_zero, orthogonal_to, unit_starts
from undertow.jacobian.memory import filled_up
from undertow.jacobian.operator import JacobianOperator
from undertow.jacobian.overlaps import Overlaps
from undertow.jacobian.scaled_gram import ScaledGram

__all__ = ["golub_kahan"]

# A warm start must rule out by its share of fresh randomness alone, with even odds, a new top direction whose norm is
# larger by twice the tolerance. (Where two norms cross, the residual of the old direction cannot tell.)
_WARM_RISK = 0.5
_WARM_SLACK = 2.0


def golub_kahan(
    operator: JacobianOperator,
    start: Tensor,
    *,
    warm: Tensor | None,
    rtol: float,
    max_steps: int,
    risk: float,
    keep_vectors: bool,
    most: Tensor | None = None,
    rounding: Tensor | None = None,
    replaceable: bool = False,
    runs: Tensor | None = None,
) -> Krylov:
    """Largest singular values from ``start``, (N, small side), each sample until its own bound is met.

    Golub–Kahan–Lanczos in its one-sided form: Lanczos on JᵀJ, or on JJᵀ where the output is no larger.
    The long side is never stored, normalised or orthogonalised, which for the largest singular value costs
    no accuracy and saves most of the memory traffic. The basis on the small side is kept orthogonal to the square
    root of rounding, which leaves T_k exact to rounding (see :mod:`undertow.jacobian.overlaps`).
    Where the Krylov space closes to rounding, it goes on in a direction that rounding chose: a random start may
    have touched the top direction by less than rounding shows, so closing by itself proves nothing.

    A sample has converged when its residual ‖Jᵀu − σv‖ is within rtol·σ, and so is the upper bound that fails
    with probability at most ``risk`` (see :mod:`undertow.jacobian.tridiagonal`). From a ``warm`` start the
    bound need only hold with even odds at twice the tolerance to stop; the upper bound that is returned fails with
    probability at most ``risk`` here too, and is the wider for it.

    ``most`` bounds the norms from above. Products that rounding distorts are not those of any Jacobian, and a run on
    them can grow without limit: a sample whose coefficients exceed what ``most`` allows leaves with NaN and an infinite
    bound.
    ``rounding`` is the part of each sample's tolerance, at most half of it, that is already spent. Samples that it will
    not be enough for leave with NaN too if they are ``replaceable``, by a run in float64.
    ``runs`` numbers runs that share their products: of each sample, whose. Samples are looked at when those of their
    own run are, so that what is found does not depend on the others.
    """
    run = _Run(operator, start, warm, rtol, max_steps, risk, keep_vectors, most, rounding, replaceable, runs)
    while run.advance():
        pass
    return run.found.result()


class _Run:
    def __init__(
        self,
        operator: JacobianOperator,
        start: Tensor,
        warm: Tensor | None,
        rtol: float,
        max_steps: int,
        risk: float,
        keep_vectors: bool,
        most: Tensor | None = None,
        rounding: Tensor | None = None,
        replaceable: bool = False,
        runs: Tensor | None = None,
    ) -> None:
        count, self.dimension = start.shape
        self.rtol = rtol
        self.gram = ScaledGram(operator)
        self.max_steps = min(max_steps, self.dimension)
        self.warm = warm is not None
        self.risk = risk
        self.replaceable = replaceable
        self.stop_risk = _WARM_RISK if self.warm else risk
        # Of a warm start, a unit vector plus noise and then of length one again, at least this much is noise.
        share = WARM_NOISE / (1 + WARM_NOISE) if self.warm else 1.0
        self.log_target = -math.log(share * tridiagonal.miss_threshold(self.dimension, self.stop_risk))
        self.log_promise = -math.log(share * tridiagonal.miss_threshold(self.dimension, risk))
        # Below this fraction of the largest coefficient a new direction is mostly rounding.
        self.closing = 4 * torch.finfo(start.dtype).eps * math.sqrt(self.dimension)
        self.unit_roundoff = torch.finfo(start.dtype).eps
        self.basis = start.new_empty(count, min(32, self.max_steps), self.dimension)
        self.basis[:, 0] = unit_starts(start, warm)
        self.diagonal = start.new_zeros(count, self.max_steps, dtype=torch.float64)
        self.off = torch.zeros_like(self.diagonal)
        self.largest = start.new_zeros(count)
        self.most = torch.full_like(self.largest, math.inf, dtype=torch.float64) if most is None else most
        self.rounding = torch.zeros_like(self.most) if rounding is None else rounding
        self.overlaps = Overlaps(count, self.dimension, dtype=start.dtype, device=start.device)
        self.step = 0
        self.runs = torch.zeros(count, dtype=torch.int64, device=start.device) if runs is None else runs
        # A random start can promise nothing within a few steps.
        first_look = min(10 if self.warm else 12, self.max_steps)
        self.next_looks = [first_look] * (1 if runs is None else int(runs.max()) + 1)
        self.active = torch.arange(count, device=start.device)
        self.wanted = self.active  # places in the batch of those that have not converged
        self.found = Findings(start, keep_vectors=keep_vectors)

    def advance(self) -> bool:
        """One step for all active samples; False when none is left."""
        vector = self.basis[:, self.step]
        onward = self.gram(vector)
        diagonal = (onward * vector).sum(1)
        self.largest = torch.maximum(self.largest, diagonal)
        onward = torch.addcmul(onward, vector, diagonal[:, None], value=-1)
        if self.step > 0:
            before = self.off[:, self.step - 1, None].to(onward.dtype)
            onward = torch.addcmul(onward, self.basis[:, self.step - 1], before, value=-1)
        off = torch.linalg.vector_norm(onward, dim=1)
        self.diagonal[:, self.step] = diagonal.double()
        for _ in range(self.overlaps.passes(self.diagonal, self.off, off, self.largest, asked=self.wanted)):
            onward = orthogonal_to(self.basis[:, : self.step + 1], onward)
            off = torch.linalg.vector_norm(onward, dim=1)
        if self.step + 1 < self.dimension:
            onward, off = self._kept_open(onward, off)
        else:
            off = torch.zeros_like(off)
        self.off[:, self.step] = off.double()
        self.step += 1
        last = self.step >= self.max_steps
        if not last:
            self._append(onward.mul_(inverse_or_zero(off)[:, None]))
        if last or self.step >= min(self.next_looks):
            self._check(last)
        return len(self.active) > 0

    def _kept_open(self, onward: Tensor, off: Tensor) -> tuple[Tensor, Tensor]:
        """Where the next vector is mostly rounding: orthogonal to the basis once more, and a random one for zero.

        The coefficient is wrong by no more than rounding of JᵀJ, so the bound holds as it does elsewhere. Only J = 0
        leaves zero.
        """
        index = ((off <= self.closing * self.largest) & (self.largest > 0)).nonzero()[:, 0]
        if len(index) > 0:
            # Not from 0, which draws the starts: noise along the first of them would leave nothing.
            generator = torch.Generator(device=onward.device).manual_seed(self.step + 1)
            noise = torch.randn(self.dimension, generator=generator, dtype=onward.dtype, device=onward.device)
            floor = self.unit_roundoff * self.largest[index]
            length = off[index]
            known = self.basis[index, : self.step + 1]
            fresh = torch.where(
                (length > floor)[:, None], onward[index] / length[:, None], noise / noise.norm()
            )
            for _ in range(3):
                fresh = torch.nn.functional.normalize(orthogonal_to(known, fresh), dim=1, eps=1e-30)
            length = torch.maximum(length, floor)
            onward[index], off[index] = fresh * length[:, None], length
        return onward, torch.where(self.largest > 0, off, 0.0)

    def _append(self, vector: Tensor) -> None:
        if self.step == self.basis.shape[1]:
            more = min(self.basis.shape[1], self.max_steps - self.basis.shape[1])
            self.basis = torch.cat(
                [self.basis, self.basis.new_empty(len(vector), more, self.dimension)], dim=1
            )
        self.basis[:, self.step] = vector

    def _check(self, last: bool) -> None:
        """What is known by now of every active sample; those whose bound is met leave, and those that broke down."""
        broken, due = self._break_down(), self._due(last)
        off = self.off[:, : self.step]
        matrix = tridiagonal.LanczosMatrix(self.diagonal[:, : self.step], off)
        # Where the space is all of it nothing else bounds what the search for θ leaves.
        ritz = matrix.ritz(rtol=self.rtol if self.step < self.dimension else 1e-12)
        broken |= self._hopeless(ritz, due)
        tolerance = self._tolerance(ritz)
        reach = tolerance * (_WARM_SLACK if self.warm else 1.0)
        log_p = matrix.log_polynomial(ritz * (1 + reach) ** 2)
        closed = (off == 0).any(1)
        bounded = closed | (log_p >= self.log_target)
        good = self.found.converged[self.active] | broken  # those that only wait to be taken out
        candidates = ((bounded | last) & ~good & due).nonzero()[:, 0]
        if len(candidates) > 0:
            good[candidates] = self._settle(candidates, matrix, ritz, tolerance, closed, bounded, last)
        if last:
            self.active = self.active[:0]
        else:
            for run, look in enumerate(self.next_looks):
                if look <= self.step:
                    waiting = ~good if len(self.next_looks) == 1 else ~good & (self.runs == run)
                    self.next_looks[run] = self._next_look(log_p[waiting], bounded[waiting])
            self._drop(good)

    def _due(self, last: bool) -> Tensor:
        """Which samples are looked at now."""
        due = [last or look <= self.step for look in self.next_looks]
        return torch.tensor(due, device=self.runs.device)[self.runs]

    def _tolerance(self, ritz: Tensor) -> Tensor:
        """What rounding leaves of the relative tolerance of every active sample."""
        spent = self.rounding * self.gram.units(self.most) * inverse_or_zero(ritz.clamp_min(0).sqrt())
        return (self.rtol - spent).clamp_min(self.rtol / 2)

    def _hopeless(self, ritz: Tensor, due: Tensor) -> Tensor:
        """Which samples need float64, by the norm found so far: should it still grow twofold, nothing is lost."""
        spent = (self.rounding * self.gram.units(self.most)).square()
        hopeless = self.replaceable & due & (spent > self.rtol**2 * ritz)
        self.found.value[self.active[hopeless]] = math.nan
        return hopeless

    def _break_down(self) -> Tensor:
        """Which samples' coefficients are not those of a Jacobian; their rows become those of a zero."""
        beyond = self.largest.double() > 1.01 * (self.most * self.gram.units(self.most)).square()
        size = (self.diagonal[:, : self.step] + self.off[:, : self.step]).sum(1)
        broken = beyond | ~size.isfinite() | self.found.value[self.active].isnan()
        index = broken.nonzero()[:, 0]
        if len(index) > 0:
            self.found.value[self.active[index]] = math.nan
            self.diagonal[index], self.off[index], self.largest[index] = 0.0, 0.0, 0.0
            self.basis[index, : self.step + 1] = 0.0
        return broken

    def _settle(
        self,
        candidates: Tensor,
        matrix: tridiagonal.LanczosMatrix,
        ritz: Tensor,
        tolerance: Tensor,
        closed: Tensor,
        bounded: Tensor,
        last: bool,
    ) -> Tensor:
        """Look at the residuals of the candidates, write down those that leave, and say which have converged."""
        matrix, ritz, closed = matrix.take(candidates), ritz[candidates], closed[candidates]
        tolerance = tolerance[candidates]
        off = self.off[candidates, : self.step]
        vector = matrix.vector()
        value = ritz.clamp_min(0).sqrt()
        residual = tridiagonal.ritz_residual(
            self.diagonal[candidates, : self.step], off, ritz, vector
        ) * inverse_or_zero(value)
        good = bounded[candidates] & (residual <= tolerance * value)
        begin, iterations = (2.0, 12) if self.warm else ((1 + self.rtol) ** 2, 12 if last else 2)
        bound = matrix.upper_bound(ritz, self.log_promise, begin=begin, iterations=iterations)
        upper = torch.where(closed, value, torch.maximum(value + residual, bound.sqrt()))
        log_miss = math.log(self.risk) + self.log_promise - matrix.log_polynomial(upper.square())
        unit = self.gram.units(self.most)[candidates]

        leaving = (good | last).nonzero()[:, 0]
        index = self.active[candidates[leaving]]
        found = self.found
        found.value[index] = (value / unit)[leaving]
        found.upper[index] = (upper / unit)[leaving]
        found.residual[index] = (residual / unit)[leaving]
        found.risk[index] = torch.where(closed, 0.0, log_miss.exp().clamp_max(1.0))[leaving]
        found.converged[index] = good[leaving]
        found.steps[index] = ((off[leaving] > 0).cumprod(1).sum(1) + 1).clamp_max(self.step)
        if found.vectors is not None:
            coordinates = vector[leaving].to(self.basis.dtype)
            basis = self.basis[candidates[leaving], : self.step]
            found.vectors[index] = torch.bmm(coordinates[:, None, :], basis)[:, 0]
        return good

    def _next_look(self, log_p: Tensor, bounded: Tensor) -> int:
        """The step where the slower half of a run should be done: log p_k grows in proportion to the steps."""
        if len(log_p) == 0:
            return self.max_steps
        waiting = torch.where(bounded, 1.2, self.log_target / log_p.clamp_min(0.1))
        factor = float(waiting.clamp(1.0, 1.4).median())
        pause = 4 if self.gram.slow_to_resize else 2  # a look takes a GPU as long as a few steps
        return min(max(self.step + pause, math.ceil(self.step * factor)), self.max_steps)

    def _drop(self, good: Tensor) -> None:
        """Take finished samples out of the batch, once that pays for the copy, or for another size of batch."""
        index = self.wanted = (~good).nonzero()[:, 0]
        if len(index) == 0:
            self.active = self.active[:0]
        elif len(index) <= (0.25 if self.gram.slow_to_resize else 0.75) * len(good):
            unfinished = len(index)
            index = filled_up(index, len(good)) if self.gram.slow_to_resize else index
            self.active = self.active[index]
            self.wanted = torch.arange(unfinished, device=index.device)
            self.overlaps.take(index)
            self.gram.take(index)
            self.basis = self.basis[index]
            self.diagonal, self.off, self.largest = self.diagonal[index], self.off[index], self.largest[index]
            self.most, self.rounding, self.runs = self.most[index], self.rounding[index], self.runs[index]
