"""Per-sample operator norms of a network's Jacobian, each with a bound on its error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from undertow.core.errors import InputError
from undertow.core.outputs import OutputChoice
from undertow.core.precision import matmul_precision
from undertow.jacobian.factor import Factor
from undertow.jacobian.layered import LayeredOperator
from undertow.jacobian.memory import chunk_size, default_budget, graph_bytes, in_chunks
from undertow.jacobian.method import Method, default_steps
from undertow.jacobian.operator import JacobianOperator
from undertow.jacobian.perturbation import Noise
from undertow.jacobian.plan import Plan
from undertow.jacobian.precisions import NetworkSamples, Precisions
from undertow.jacobian.preconditions import Network, check_network, prepare
from undertow.jacobian.result import JacobianNorms, joined
from undertow.jacobian.rounding import Pullback
from undertow.jacobian.trace import leave_no_trace

__all__ = ["JacobianNorms", "jacobian_norms", "matrix_norm", "norms_at", "warm_vectors"]


@matmul_precision("float32")  # the bounds do not cover the rounding of TF32
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
    start: JacobianNorms | Tensor | None = None,
    keep_vectors: bool = False,
    memory_budget: int | None = None,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> JacobianNorms:
    """Operator norm ‖J_f(x_i)‖₂ of the Jacobian at every sample of ``x``, shape (N, …).

    Args:
        f: a network in eval mode, or any function (N, …) → (N, …) that treats every sample alone.
        x: samples (N, …). Of token ids the Jacobian is taken from the output of the embedding on.
        method: "auto" takes one gradient where the output is a scalar, a Gram matrix where one side of the Jacobian is
            at most 64, and Golub–Kahan–Lanczos with an error bound otherwise; "exact" and "krylov" ask for these.
            "power" is Algorithm 2 of Wang, Min & Ruan (2024) as printed, "power-authors" their code's 30-step form.
        rtol: bounds error/value.
        max_steps: of Lanczos or of the power iteration.
        chunk: samples worked on at a time; by default as many as ``memory_budget`` allows.
        dtype: of the computation; by default that of the network.
        generator: of the random starts. Without one a fixed seed is used; the global random state is never touched.
        risk: the allowed probability that any of the N random starts hid a larger norm.
        start: an earlier result made with ``keep_vectors=True``, or its vectors, for a warm start.
        keep_vectors: whether the result holds the vectors that a warm start needs.
        memory_budget: bytes within which chunks keep; by default a quarter of what is free.
        output: which of the network's outputs: a name, a place, a function; by default the obvious one, "logits".
        extras: what the network takes beside x, by name, a row for each sample: {"attention_mask": mask}.

    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.ReLU())
    >>> _ = net[0].weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    >>> jacobian_norms(net, torch.tensor([[1.0, -1.0], [1.0, 1.0]])).value
    tensor([3., 4.], dtype=torch.float64)
    """
    f, x = prepare(f, x, dtype, output=output, extras=extras)
    with leave_no_trace(f, device=x.device):
        check_network(f, x)
        samples = NetworkSamples(f, x)
        samples.refuse_places()
        return norms_at(
            samples,
            method=method,
            rtol=rtol,
            max_steps=max_steps,
            chunk=chunk,
            generator=generator,
            risk=risk,
            start=start,
            keep_vectors=keep_vectors,
            memory_budget=memory_budget,
        )


@matmul_precision("float32")
def norms_at(
    samples: NetworkSamples,
    *,
    chunk: int | None = None,
    generator: torch.Generator | None = None,
    start: JacobianNorms | Tensor | None = None,
    memory_budget: int | None = None,
    **options: Any,
) -> JacobianNorms:
    """The norms at samples of a network that has been checked; options as in :func:`jacobian_norms`.

    Where samples are those of several runs, each run has the starts and the risk that it would have alone.
    """
    samples = samples.quickest.decided
    x = samples.x
    first = samples.at(slice(0, 1))
    few = first.given
    repeats = 1 if samples.runs is None else int(samples.runs.max()) + 1
    plan = Plan.choose(few, len(x) // repeats, **options)
    if few.constant:
        # A linear network: one Jacobian for all samples.
        return plan.measure(first, plan.starts(1, few, generator), None).expanded(len(x))
    warm = warm_vectors(start, len(x), min(few.in_size, few.out_size), few)
    starts = plan.starts(len(x) // repeats, few, generator)
    if starts is not None and repeats > 1:
        others = (plan.starts(len(x) // repeats, few, generator) for _ in range(repeats - 1))
        starts = torch.cat([starts, *(each for each in others if each is not None)])
    if chunk is None:
        graph = 0 if samples.structured else 4 * graph_bytes(samples.f, x)
        budget = default_budget(x.device) if memory_budget is None else memory_budget
        chunk = chunk_size(len(x), graph + plan.bytes_per_sample(few), budget)
    elif chunk < 1:
        raise InputError(f"chunk must be at least 1, not {chunk}.")

    def work(part: slice) -> JacobianNorms:
        return plan.measure(
            samples.at(part),
            None if starts is None else starts[part],
            None if warm is None else warm[part],
        )

    return joined(list(in_chunks(len(x), chunk, work)))


def matrix_norm(matrix: Tensor, *, rtol: float = 1e-6, risk: float = 1e-6) -> JacobianNorms:
    """‖W‖₂ of one matrix with its error bound, as norms of a batch of one.

    >>> matrix_norm(torch.diag(torch.tensor([2.0, 5.0], dtype=torch.float64))).value.item()
    5.0
    """
    factor = Factor(matrix.detach().double())
    operator = LayeredOperator((factor,), (None,), (1,))

    def moved(draw: int) -> Pullback:
        return LayeredOperator((factor,), (None,), (1,), Noise(torch.float64, matrix.device, seed=draw)).vjp

    small = min(matrix.shape)
    method = (
        "exact" if small <= 1024 else "krylov"
    )  # for one matrix LAPACK is fastest until well past a thousand
    plan = Plan(method, rtol, risk, default_steps(method, small, rtol, risk), keep_vectors=False)
    return plan.measure(Precisions(operator, moved, None), plan.starts(1, operator, None), None)


def warm_vectors(
    start: JacobianNorms | Tensor | None, count: int, small: int, like: Tensor | JacobianOperator
) -> Tensor | None:
    """The vectors of an earlier result for as many samples of the same size, or an error that says what differs."""
    if start is None:
        return None
    vectors = start if isinstance(start, Tensor) else start.vectors
    if vectors is None:
        raise InputError("start holds no vectors: make it with jacobian_norms(…, keep_vectors=True).")
    if vectors.shape != (count, small):
        raise InputError(
            f"start holds vectors of shape {tuple(vectors.shape)}, but these samples need {(count, small)}: "
            "warm starts need the same samples and the same sizes."
        )
    return vectors.to(dtype=like.dtype, device=like.device)
