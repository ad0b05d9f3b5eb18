"""Per-sample operator norms of a network's Jacobian, each with a bound on its error."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from undertow.errors import InputError, nearest
from undertow.jacobian import tridiagonal
from undertow.jacobian.checks import Network, check_network, prepare
from undertow.jacobian.exact import exact_norms, rounding_bound
from undertow.jacobian.krylov import golub_kahan
from undertow.jacobian.layered import LayeredOperator
from undertow.jacobian.memory import chunk_size, default_budget, graph_bytes, in_chunks
from undertow.jacobian.operator import JacobianOperator, build_operator
from undertow.jacobian.power import power_iteration
from undertow.jacobian.trace import leave_no_trace
from undertow.status import Status

__all__ = ["JacobianNorms", "jacobian_norms", "matrix_norm"]

Method = Literal["auto", "exact", "krylov", "power", "power-authors"]
_METHODS = ("auto", "exact", "krylov", "power", "power-authors")
_SMALL_SIDE = 64


@dataclass(frozen=True)
class JacobianNorms:
    """‖J(x_i)‖₂ for every sample, and how well it is known.

    ``value`` and ``error`` are float64 tensors (N,). What ``error`` promises:

    - ``exact``: rounding of the working precision, in the Jacobian that the forward pass defines (a ReLU
      whose input is zero to rounding may fall on either side).
    - ``krylov``: ``value`` is a lower bound up to rounding, and the true norm is at most ``value + error``
      unless the sample's random start nearly missed the top direction, which has at most the probability
      in ``risk``. ``error`` is the larger of that random-start bound and the residual ‖Jᵀu − σv‖, plus
      rounding. By default all N bounds hold together with 99 %. After a warm start ``error`` is the residual:
      some singular value lies that close. That it is the largest is inherited from the call that gave the
      vectors; by itself the start's fresh randomness gives even odds against one larger by 2·rtol.
    - ``power``: nothing; ``error`` is infinite.

    ``status`` is the worst over the samples, ``converged`` tells them apart, ``steps`` is what each took.
    """

    value: Tensor
    error: Tensor
    steps: Tensor
    risk: Tensor
    converged: Tensor
    status: Status
    method: str
    vectors: Tensor | None = None

    def __len__(self) -> int:
        return len(self.value)


def jacobian_norms(
    f: Network,
    x: Tensor,
    *,
    method: Method = "auto",
    rtol: float = 1e-3,
    max_steps: int | None = None,
    chunk: int | None = None,
    dtype: torch.dtype | None = None,
    generator: torch.Generator | None = None,
    risk: float = 0.01,
    start: JacobianNorms | None = None,
    keep_vectors: bool = False,
    memory_budget: int | None = None,
) -> JacobianNorms:
    """Operator norm ‖J_f(x_i)‖₂ of the Jacobian at every sample of ``x``, shape (N, …).

    ``method="auto"`` takes one gradient where the output is a scalar, a Gram matrix where one side of the
    Jacobian is at most 64, and Golub–Kahan–Lanczos with an error bound otherwise. ``"power"`` is
    Algorithm 2 of Wang, Min & Ruan (2024) as printed, ``"power-authors"`` their code's 30-step form.

    ``rtol`` bounds error/value; ``risk`` is the allowed probability that any of the N random starts hid a
    larger norm. ``start`` takes an earlier result (made with ``keep_vectors=True``) for a warm start.
    Samples are worked on in chunks that keep within ``memory_budget`` bytes, by default a quarter of what
    is free. Nothing is drawn from the global random state; without ``generator`` a fixed seed is used.

    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.ReLU())
    >>> _ = net[0].weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    >>> jacobian_norms(net, torch.tensor([[1.0, -1.0], [1.0, 1.0]])).value
    tensor([3., 4.], dtype=torch.float64)
    """
    if method not in _METHODS:
        raise InputError(f"there is no method {method!r}: {nearest(str(method), _METHODS)}")
    if not 0 < rtol < 1:
        raise InputError(f"rtol must lie between 0 and 1, not {rtol}.")
    if not 0 < risk < 1:
        raise InputError(f"risk must lie between 0 and 1, not {risk}.")
    if max_steps is not None and max_steps < 1:
        raise InputError(f"max_steps must be at least 1, not {max_steps}.")
    f, x = prepare(f, x, dtype)
    with leave_no_trace(f, device=x.device):
        outputs = check_network(f, x)[0].numel()
        few = build_operator(f, x[:1])
        small = min(few.in_size, outputs)
        if method == "auto":
            method = "exact" if small <= _SMALL_SIDE else "krylov"
        each = risk / (1 if few.constant else len(x))  # so that all bounds hold together
        plan = _Plan(method, rtol, each, max_steps or _default_steps(method, small, rtol, each), keep_vectors)
        if few.constant:
            # A linear network: one Jacobian for all samples.
            starts = plan.starts(1, few, generator)
            return _expanded(plan.measure(few, starts, None), len(x))
        warm = _warm_vectors(start, len(x), small, x)
        starts = plan.starts(len(x), few, generator)
        if chunk is None:
            graph = 0 if isinstance(few, LayeredOperator) else 3 * graph_bytes(f, x)
            budget = default_budget(x.device) if memory_budget is None else memory_budget
            chunk = chunk_size(len(x), graph + plan.bytes_per_sample(few), budget)
        elif chunk < 1:
            raise InputError(f"chunk must be at least 1, not {chunk}.")

        def work(part: slice) -> JacobianNorms:
            return plan.measure(
                build_operator(f, x[part]),
                None if starts is None else starts[part],
                None if warm is None else warm[part],
            )

        return _joined(list(in_chunks(len(x), chunk, work)))


def matrix_norm(matrix: Tensor, *, rtol: float = 1e-6, risk: float = 1e-6) -> JacobianNorms:
    """‖W‖₂ of one matrix with its error bound, as norms of a batch of one.

    >>> matrix_norm(torch.diag(torch.tensor([2.0, 5.0], dtype=torch.float64))).value.item()
    5.0
    """
    operator = LayeredOperator((matrix.detach(),), (None,), 1)
    small = min(matrix.shape)
    method = (
        "exact" if small <= 1024 else "krylov"
    )  # for one matrix LAPACK is fastest until well past a thousand
    plan = _Plan(method, rtol, risk, _default_steps(method, small, rtol, risk), keep_vectors=False)
    return plan.measure(operator, plan.starts(1, operator, None), None)


def _default_steps(method: str, small: int, rtol: float, risk: float) -> int:
    if method == "power-authors":
        return 30
    if method == "power":
        return 10_000
    # Twice what the worst spectrum needs for its value: the residual may lag behind.
    return min(small, 2 * tridiagonal.a_priori_steps(small, rtol, risk))


@dataclass(frozen=True)
class _Plan:
    """One way to get the norms of one chunk of samples."""

    method: str
    rtol: float
    risk: float
    max_steps: int
    keep_vectors: bool

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
            widths = [operator.in_size, *(weight.shape[0] for weight in operator.weights)]
        working = 4 * max(widths) + sum(widths)
        if self.method == "exact":
            return element * (3 * small * max(widths) + working) + 8 * 3 * small * small
        if self.method == "krylov":
            expected = min(self.max_steps, tridiagonal.a_priori_steps(small, self.rtol, self.risk))
            # The basis doubles when it grows, and for a moment both copies exist.
            return element * (2 * small * max(32, expected) + working) + 8 * 64 * 6
        return element * (working + 4 * large)

    def measure(
        self, operator: JacobianOperator, starts: Tensor | None, warm: Tensor | None
    ) -> JacobianNorms:
        if self.method == "exact":
            return self._exact(operator)
        assert starts is not None
        if self.method == "krylov":
            return self._krylov(operator, starts, warm)
        return self._power(operator, starts)

    def _exact(self, operator: JacobianOperator) -> JacobianNorms:
        value, vectors = exact_norms(operator, keep_vectors=self.keep_vectors)
        count = min(operator.in_size, operator.out_size)
        return JacobianNorms(
            value=value,
            error=rounding_bound(value, operator),
            steps=torch.full_like(value, count, dtype=torch.int64),
            risk=torch.zeros_like(value),
            converged=torch.ones_like(value, dtype=torch.bool),
            status=Status.EXACT,
            method="exact",
            vectors=vectors,
        )

    def _krylov(self, operator: JacobianOperator, starts: Tensor, warm: Tensor | None) -> JacobianNorms:
        found = golub_kahan(
            operator,
            starts,
            warm=warm,
            rtol=self.rtol,
            max_steps=self.max_steps,
            risk=self.risk,
            keep_vectors=self.keep_vectors,
        )
        rounding = rounding_bound(found.value, operator)
        # A tolerance below rounding is never met, however small the residual.
        converged = found.converged & (rounding <= self.rtol * found.value)
        return JacobianNorms(
            value=found.value,
            error=torch.maximum(found.residual, found.upper - found.value) + rounding,
            steps=found.steps,
            risk=found.risk,
            converged=converged,
            status=_status(converged, warm is not None),
            method="krylov",
            vectors=found.vectors,
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


def _status(converged: Tensor, warm: bool) -> Status:
    if not bool(converged.all()):
        return Status.MAX_STEPS
    return Status.TRACKED if warm else Status.CONVERGED


def _warm_vectors(start: JacobianNorms | None, count: int, small: int, x: Tensor) -> Tensor | None:
    if start is None:
        return None
    if start.vectors is None:
        raise InputError("start holds no vectors: make it with jacobian_norms(…, keep_vectors=True).")
    if start.vectors.shape != (count, small):
        raise InputError(
            f"start holds vectors of shape {tuple(start.vectors.shape)}, but these samples need {(count, small)}: "
            "warm starts need the same samples and the same sizes."
        )
    return start.vectors.to(dtype=x.dtype, device=x.device)


_PER_SAMPLE = ("value", "error", "steps", "risk", "converged")


def _joined(parts: list[JacobianNorms]) -> JacobianNorms:
    if len(parts) == 1:
        return parts[0]
    tensors: dict[str, Any] = {
        name: torch.cat([getattr(part, name) for part in parts]) for name in _PER_SAMPLE
    }
    vectors = (
        None if parts[0].vectors is None else torch.cat([p.vectors for p in parts if p.vectors is not None])
    )
    worst = Status.worst(part.status for part in parts)
    return replace(parts[0], **tensors, vectors=vectors, status=worst)


def _expanded(one: JacobianNorms, count: int) -> JacobianNorms:
    tensors: dict[str, Any] = {name: getattr(one, name).expand(count).clone() for name in _PER_SAMPLE}
    vectors = None if one.vectors is None else one.vectors.expand(count, -1).clone()
    return replace(one, **tensors, vectors=vectors)
