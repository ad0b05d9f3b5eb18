"""One way to get the norms of one chunk of samples: which method, how exactly, in how much memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from undertow.core.status import Status
from undertow.jacobian import tridiagonal
from undertow.jacobian.direct import exact_norms, rounding_bound
from undertow.jacobian.krylov import golub_kahan
from undertow.jacobian.layered import LayeredOperator
from undertow.jacobian.memory import filled_up
from undertow.jacobian.method import ONE_MATRIX, Method, check_options, chosen_method, default_steps
from undertow.jacobian.operator import JacobianOperator, slow_to_resize
from undertow.jacobian.power import power_iteration
from undertow.jacobian.precisions import Precisions
from undertow.jacobian.result import JacobianNorms
from undertow.jacobian.rounding import Pullbacks, Rounding, rounding_of

__all__ = ["Plan"]

_FEW = 64
_EXACT = 1e-4  # relative rounding beyond which an exact norm is computed in float64
_NEGLIGIBLE = 1e-3  # share of a tolerance; a first look at rounding that shows no more is the last
_HOPELESS = 2.0  # tolerances that a first look shows where no further one can help
_ROUNDING_SHARE = 0.1  # of the risk is for the bound on rounding


@dataclass(frozen=True)
class _Coarser:
    """What a lower precision that is not good enough said of rounding, and the run that it could make all the same."""

    rounding: Rounding
    run: Callable[[], JacobianNorms]


@dataclass(frozen=True)
class Plan:
    """A method with its tolerance, the risk for one sample, and its limits."""

    method: str
    rtol: float
    risk: float
    max_steps: int
    keep_vectors: bool

    @classmethod
    def choose(
        cls,
        operator: JacobianOperator,
        samples: int,
        *,
        method: Method = "auto",
        rtol: float = 1e-3,
        max_steps: int | None = None,
        risk: float = 0.01,
        keep_vectors: bool = False,
    ) -> Plan:
        """The plan for so many samples like those of ``operator``; options as in ``jacobian_norms``."""
        check_options(method, rtol, max_steps, risk)
        chosen, small = chosen_method(method, operator), min(operator.in_size, operator.out_size)
        each = risk / (1 if operator.constant else samples)  # so that all bounds hold together
        return cls(chosen, rtol, each, max_steps or default_steps(chosen, small, rtol, each), keep_vectors)

    def starts(
        self, count: int, operator: JacobianOperator, generator: torch.Generator | None
    ) -> Tensor | None:
        """Start vectors for all samples at once, so that they do not depend on how samples are chunked."""
        if self.method == "exact":
            return None
        if generator is None:
            generator = torch.Generator(device=operator.device).manual_seed(0)
        options = {"dtype": operator.dtype, "device": generator.device, "generator": generator}
        if self.method == "krylov":
            small = min(operator.in_size, operator.out_size)
            return torch.randn(count, small, **options).to(operator.device)  # type: ignore[call-overload,no-any-return]
        return torch.rand(count, operator.in_size, **options).to(operator.device)  # type: ignore[call-overload,no-any-return]

    def bytes_per_sample(self, operator: JacobianOperator) -> int:
        """Peak working memory of one sample, beyond autograd's graph."""
        small, large = sorted((operator.in_size, operator.out_size))
        element = operator.dtype.itemsize
        widths = [small, large]
        if isinstance(operator, LayeredOperator):
            widths = list(operator.widths)
        working = 4 * max(widths) + sum(widths)
        if self.method == "exact":
            return element * (3 * small * max(widths) + working) + 8 * 3 * small * small
        if self.method == "krylov":
            expected = min(self.max_steps, tridiagonal.a_priori_steps(small, self.rtol, self.risk))
            # The basis doubles when it grows, and for a moment both copies exist.
            return element * (2 * small * max(32, expected) + working) + 8 * 64 * 6
        return element * (working + 4 * large)

    def measure(self, samples: Precisions, starts: Tensor | None, warm: Tensor | None) -> JacobianNorms:
        """The norms of one chunk; in float64 those of the samples whose rounding would show otherwise."""
        if self.method == "exact":
            return self._exact(samples)
        assert starts is not None
        if self.method == "krylov":
            return self._krylov(samples, starts, warm)
        return self._power(samples.given, starts)

    def _exact(self, samples: Precisions) -> JacobianNorms:
        operator = samples.given
        found = exact_norms(operator, keep_vectors=self.keep_vectors)
        rounding = self._rounding(samples, found.pullbacks)
        error = rounding.error + rounding_bound(found.value, operator)
        good = error <= self.rtol * found.value
        norms = JacobianNorms(
            value=found.value,
            error=torch.where(error.isnan(), math.inf, error),
            steps=torch.full_like(found.value, min(operator.in_size, operator.out_size), dtype=torch.int64),
            risk=torch.zeros_like(found.value),
            converged=good | _zero(found.value, error),
            status=Status.EXACT,
            method="exact",
            vectors=found.vectors,
        )
        if samples.better is None:
            return norms.with_status(Status.EXACT, otherwise=Status.ROUNDING)
        again = _recurring(self.doubtful(norms), operator)
        return norms.replaced(again, lambda index: self._exact(_better(samples, index)), good=Status.EXACT)

    def doubtful(self, norms: JacobianNorms) -> Tensor:
        """Which samples' exact norms should be computed in float64 instead.

        What is called exact should be so to more than rtol, and float64 costs little more.
        """
        sure = norms.error <= min(self.rtol, _EXACT) * norms.value
        return (~sure | _vanishing(norms.value)).nonzero()[:, 0]

    def _krylov(
        self, samples: Precisions, starts: Tensor, warm: Tensor | None, *, coarser: _Coarser | None = None
    ) -> JacobianNorms:
        operator, good = samples.given, Status.CONVERGED if warm is None else Status.TRACKED
        rounding = self._rounding(samples, lambda vectors: map(operator.vjp, vectors))

        def more_precisely(index: Tensor, *, instead: _Coarser | None = None) -> JacobianNorms:
            better, own = _better(samples, index), None if warm is None else warm[index]
            place = better.given.device, better.given.dtype
            own = None if own is None else own.to(*place)
            if _few_on_a_gpu(better.given):
                return self._exact(better)
            return self._krylov(better, starts[index].to(*place), own, coarser=instead)

        def lanczos(some: Tensor | None = None, *, replaceable: bool) -> tuple[JacobianNorms, Tensor]:
            options: dict[str, Any] = {"status": good, "replaceable": replaceable}
            if some is None:
                return self._lanczos(operator, starts, warm, rounding, samples.runs, **options)
            own, runs = (None if each is None else each[some] for each in (warm, samples.runs))
            few = Rounding(rounding.error[some], rounding.most[some])
            norms, sound = self._lanczos(operator.take(some), starts[some], own, few, runs, **options)
            return norms.among(some, operator.batch), torch.zeros_like(lost).index_copy(0, some, sound)

        lost = rounding.error > self.rtol * rounding.most  # for these no run in this precision is good enough
        if bool(lost.all()):
            own = _Coarser(
                rounding, lambda: lanczos(replaceable=False)[0].with_status(good, otherwise=Status.ROUNDING)
            )
            if samples.better is not None:
                every = torch.arange(operator.batch, device=operator.device)
                return more_precisely(every, instead=coarser or own)
            if coarser is not None and _gains_nothing(rounding, coarser.rounding):
                return coarser.run()
        if samples.better is None:
            norms, sound = lanczos(replaceable=False)
            otherwise = Status.MAX_STEPS if bool(sound.all()) else Status.ROUNDING
            return norms.with_status(good, otherwise=otherwise)
        apart = bool(lost.any()) and not slow_to_resize(operator)
        norms, sound = lanczos((~lost).nonzero()[:, 0] if apart else None, replaceable=True)
        again = _recurring((~sound | _vanishing(norms.value)).nonzero()[:, 0], operator)
        return norms.replaced(again, more_precisely, good=good)

    def _lanczos(
        self,
        operator: JacobianOperator,
        starts: Tensor,
        warm: Tensor | None,
        rounding: Rounding,
        runs: Tensor | None,
        *,
        status: Status,
        replaceable: bool,
    ) -> tuple[JacobianNorms, Tensor]:
        """The norms by one run, and of which samples rounding leaves enough of the tolerance."""
        found = golub_kahan(
            operator,
            starts,
            warm=warm,
            rtol=self.rtol,
            max_steps=self.max_steps,
            risk=self.risk,
            keep_vectors=self.keep_vectors,
            most=rounding.most + rounding.error,
            rounding=rounding.error,
            replaceable=replaceable,
            runs=runs,
        )
        arithmetic = rounding.error + rounding_bound(found.value, operator)
        # False too where the run broke down.
        sound = (arithmetic <= self.rtol / 2 * found.value) | _zero(found.value, arithmetic)
        error = torch.maximum(found.residual, found.upper - found.value) + arithmetic
        norms = JacobianNorms(
            value=found.value,
            error=torch.where(error.isnan(), math.inf, error),
            steps=found.steps,
            risk=found.risk,
            converged=found.converged & sound,
            status=status,
            method="krylov",
            vectors=found.vectors,
        )
        return norms, sound

    def _rounding(self, samples: Precisions, pullbacks: Pullbacks) -> Rounding:
        operator = samples.given
        like = torch.empty(operator.batch, operator.out_size, dtype=operator.dtype, device=operator.device)
        return rounding_of(
            pullbacks,
            samples.perturbed,
            like=like,
            decided=samples.decided,
            ties=samples.ties,
            risk=_ROUNDING_SHARE * self.risk,
            negligible=_NEGLIGIBLE * min(self.rtol, _EXACT),
            hopeless=_HOPELESS * self.rtol,
        )

    def _power(self, operator: JacobianOperator, starts: Tensor) -> JacobianNorms:
        form = "authors" if self.method == "power-authors" else "paper"
        tolerance = 1e-4 if form == "authors" else 1e-6
        value, steps, _ = power_iteration(
            operator, starts, form=form, tolerance=tolerance, max_steps=self.max_steps
        )
        return JacobianNorms(
            value=value,
            error=torch.full_like(value, math.inf),
            steps=steps,
            risk=torch.ones_like(value),
            converged=torch.zeros_like(value, dtype=torch.bool),
            status=Status.HEURISTIC,
            method=self.method,
        )


def _better(samples: Precisions, index: Tensor) -> Precisions:
    assert samples.better is not None
    return samples.better(index)


def _gains_nothing(rounding: Rounding, coarser: Rounding) -> bool:
    """Whether a higher precision shows as much rounding: at a kink, or a tie, any precision is as good as another."""
    return bool((rounding.error >= 0.1 * coarser.error.to(rounding.error)).all())


def _recurring(index: Tensor, operator: JacobianOperator) -> Tensor:
    """The samples, with others beside them where their number should be one that recurs."""
    return filled_up(index, operator.batch) if slow_to_resize(operator) else index


def _few_on_a_gpu(operator: JacobianOperator) -> bool:
    """Whether Gram matrices take a GPU less time than launching the steps of a Lanczos run would."""
    small = min(operator.in_size, operator.out_size)
    structured = isinstance(operator, LayeredOperator) and operator.device.type == "cuda"
    return structured and small <= ONE_MATRIX and operator.batch <= _FEW


def _vanishing(value: Tensor) -> Tensor:
    """Norms that float32 may have made of much larger ones: its products have no relative precision below 10⁻³⁸."""
    return value < 1e-30


def _zero(value: Tensor, error: Tensor) -> Tensor:
    """Whether a norm is zero as far as float64 can tell: of a network that is constant there."""
    return (value == 0) & (error == 0)
