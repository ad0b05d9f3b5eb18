"""Sharpness: the largest eigenvalue of the Hessian of a loss over a data set, with an error that holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError, nearest
from undertow.core.numbered_samples import given_beside, numbered
from undertow.core.outputs import OutputChoice, returning
from undertow.core.plain_words import check_tensor
from undertow.core.precision import matmul_precision
from undertow.core.status import Status
from undertow.curvature.chosen_parameters import ChosenParameters
from undertow.curvature.curvature_products import CurvatureMatrix, CurvatureProducts
from undertow.curvature.curvature_result import SharpnessResult
from undertow.curvature.dense_products import dense_network
from undertow.curvature.lanczos import WARM_SLACK
from undertow.curvature.loss_over_samples import CurvatureLoss, LossOverSamples, Reduction
from undertow.curvature.measurable import (
    check_members,
    check_samples,
    differentiable,
    kinks_of,
    working_dtype,
)
from undertow.curvature.several_eigenvalues import several_by_lanczos
from undertow.curvature.top_eigenvalues import TopEigenvalues, TopGoal, largest_by_lanczos, whole_matrix
from undertow.jacobian.trace import leave_no_trace
from undertow.jacobian.tridiagonal import a_priori_steps

__all__ = ["CurvatureMethod", "curvature_products", "sharpness", "sharpness_batched"]

CurvatureMethod = Literal["auto", "exact", "krylov"]
_FEW = 64  # parameters up to which the whole matrix takes no more products than Lanczos
_MOST = 8192  # parameters up to which the whole matrix can be held


def sharpness(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    loss: CurvatureLoss,
    rtol: float = 1e-2,
    atol: float = 0.0,
    matrix: CurvatureMatrix = "hessian",
    top: int = 1,
    start: SharpnessResult | Tensor | None = None,
    reduction: Reduction = "mean",
    parameters: Iterable[str] | None = None,
    method: CurvatureMethod = "auto",
    risk: float = 0.01,
    max_steps: int | None = None,
    dtype: torch.dtype | None = None,
    chunk: int | None = None,
    memory_budget: int | None = None,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
    generator: torch.Generator | None = None,
) -> SharpnessResult:
    """Sharpness λ_1(∇²L(w)), where L(w) is the mean over the samples of ℓ(f_w(x_i), y_i).

    Cohen, Kaur, Li, Kolter & Talwalkar (2021) find it to rise under gradient descent with rate η until it hovers just
    above 2/η. Lanczos on Hessian products gives a lower bound and, from the randomness of its start, an upper one
    (:mod:`undertow.jacobian.tridiagonal`); float32 products are taken in float64 where rounding would be too large.
    The *largest* eigenvalue is meant, also where the most negative one is larger in modulus.

    Args:
        net: Any module in eval mode; parameters that several layers share count once, frozen ones not at all.
        x: Samples (N, …), in the network's precision, or integers.
        y: Labels as in ``core/losses.py``, for cross-entropy also rows of probabilities (N, k), or whatever a function
            ``loss`` takes.
        loss: "cross-entropy", "bce", "logistic", "exponential", "square" (½‖f − y‖², classes as one-hot rows), or a
            function of outputs and labels that gives one loss per sample.
        rtol: Error that is asked for, relative to the value; 1e-2 by default.
        atol: Absolute error that is enough as well, for curvature near zero; 0 by default.
        matrix: "hessian", or "gauss-newton" for (1/N) Σ J_iᵀ ∇²ℓ_i J_i, positive semi-definite where ℓ is convex.
        top: How many of the largest eigenvalues, with vectors.
        start: An earlier result, or its vectors, of a network nearby, or of this one on some of the samples: a warm
            start. It may end as ``tracked``, with an error of up to four times rtol, and saves little: less
            than a tenth of the products over a training, or none, as nearly all of them are spent on proving that
            nothing else is larger, which no earlier result does.
        reduction: "mean" over the samples, as losses are in training, or "sum".
        parameters: Names of the parameters that move; by default all that train.
        method: "krylov", "exact" (the whole matrix) or "auto", which is exact up to 64 parameters.
        risk: Allowed probability that a random start hid a larger eigenvalue; 0.01 by default.
        max_steps: Products of a run after which Lanczos gives up with the error it has, by default four times what a
            positive semi-definite matrix of this size needs at most, and more for several eigenvalues.
        dtype: torch.float64 to take every product in float64; by default the network's precision, of half
            precision float32.
        chunk: Samples at a time, by default as many as ``memory_budget`` allows.
        memory_budget: Bytes for graphs, by default a quarter of what is free. Beside it a run holds one vector of as
            many numbers as there are parameters for every product, usually 20 to 60 of them.
        output: Which of the network's outputs holds the scores, where it has several: a name, a place, a function.
        extras: What the network takes beside x, by name, a row for each sample: {"attention_mask": mask}.
        generator: Where starts are drawn from; by default a fixed seed. The global random state is left alone.

    >>> net = nn.Linear(2, 1, bias=False)      # the Hessian is (1/N) Σ x xᵀ
    >>> x = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> found = sharpness(net, x, torch.zeros(2), loss="square")
    >>> round(found.value, 6), str(found.status)
    (2.0, 'exact')
    """
    starts = None if start is None else [start]
    return sharpness_batched(
        [net],
        x,
        y,
        loss=loss,
        rtol=rtol,
        atol=atol,
        matrix=matrix,
        top=top,
        start=starts,
        reduction=reduction,
        parameters=parameters,
        method=method,
        risk=risk,
        max_steps=max_steps,
        dtype=dtype,
        chunk=chunk,
        memory_budget=memory_budget,
        output=output,
        extras=extras,
        generator=generator,
    )[0]


@matmul_precision("float32")  # the measured rounding is not that of TF32
def sharpness_batched(
    networks: Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    loss: CurvatureLoss,
    rtol: float = 1e-2,
    atol: float = 0.0,
    matrix: CurvatureMatrix = "hessian",
    top: int = 1,
    start: Sequence[SharpnessResult | Tensor] | None = None,
    reduction: Reduction = "mean",
    parameters: Iterable[str] | None = None,
    method: CurvatureMethod = "auto",
    risk: float = 0.01,
    max_steps: int | None = None,
    dtype: torch.dtype | None = None,
    chunk: int | None = None,
    memory_budget: int | None = None,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
    generator: torch.Generator | None = None,
) -> list[SharpnessResult]:
    """The sharpness of several networks of one architecture on the same samples, their products taken at once.

    Options as in :func:`sharpness`.
    """
    if method not in get_args(CurvatureMethod):
        raise InputError(f"method = {method!r}: {nearest(str(method), get_args(CurvatureMethod))}")
    if not (0 < rtol < math.inf and 0 <= atol < math.inf and 0 < risk < 1):
        raise InputError("rtol must be positive, atol not negative, and risk in (0, 1).")
    if max_steps is not None and max_steps < 1:
        raise InputError(
            f"max_steps = {max_steps}: at least one product is needed; leave it out for as many as it takes."
        )
    if generator is not None and not isinstance(generator, torch.Generator):
        raise InputError(f"generator must be a torch.Generator, not {type(generator).__name__}.")
    options: dict[str, Any] = {
        "matrix": matrix,
        "reduction": reduction,
        "parameters": parameters,
        "dtype": dtype,
    }
    options |= {"chunk": chunk, "memory_budget": memory_budget, "output": output, "extras": extras}
    with curvature_products(networks, x, y, loss=loss, **options) as (products, kinks):
        if not 1 <= top <= products.size:
            raise InputError(f"top = {top}: the matrix has {products.size} eigenvalues.")
        # A basis that several eigenvalues share has to tell them apart, too.
        steps = max_steps or (4 + top - 1) * a_priori_steps(products.size, rtol, risk)
        drawing = generator or torch.Generator().manual_seed(0)
        goal = TopGoal(top, rtol, atol, risk, steps, drawing, _warm(start, top, products))
        exact = method == "exact" or (method == "auto" and products.size <= _FEW)
        if exact and products.size > _MOST:
            raise InputError(
                f"method='exact' holds the whole matrix, of {products.size} × {products.size}: use method='krylov'."
            )
        found = _exact(products, goal) if exact else _krylov(products, goal)
        return [_result(found, member, goal, exact, products, kinks) for member in range(products.count)]


@contextmanager
def curvature_products(
    networks: Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    loss: CurvatureLoss,
    matrix: CurvatureMatrix = "hessian",
    reduction: Reduction = "mean",
    parameters: Iterable[str] | None = None,
    dtype: torch.dtype | None = None,
    chunk: int | None = None,
    memory_budget: int | None = None,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> Iterator[tuple[CurvatureProducts, tuple[str, ...]]]:
    """Products of the networks' matrices once everything has been checked, and the kinks; leaves no trace."""
    if matrix not in get_args(CurvatureMatrix):
        raise InputError(f"matrix = {matrix!r}: {nearest(str(matrix), get_args(CurvatureMatrix))}")
    check_tensor(x)
    check_tensor(y, "y")
    given = [given_beside(differentiable(net), x, output=output, extras=extras) for net in networks]
    networks = [each.net for each in given]
    check_members(networks)
    _, x, output, beside = given[0]
    chosen = ChosenParameters.of(networks[0], parameters)
    # Read before anything is hooked onto it, for what it returns.
    dense = dense_network(networks[0], x) if output is None and not beside else None
    precision = working_dtype(networks[0], x, dtype)
    with ExitStack() as stack:
        samples = x
        for net in dict.fromkeys(networks):
            stack.enter_context(returning(net, output))
            stack.enter_context(leave_no_trace(net, device=x.device))
            if beside:
                samples, handle = numbered(net, x, beside)
                stack.enter_context(handle)
        x = samples
        outputs = check_samples(networks[0], x, y, precision)
        objective = LossOverSamples.of(y, loss=loss, reduction=reduction, outputs=tuple(outputs.shape))
        products = CurvatureProducts(
            networks,
            chosen,
            x,
            objective,
            matrix=matrix,
            dtype=precision,
            chunk=chunk,
            memory_budget=memory_budget,
            dense=dense,
        )
        if precision is torch.float64 and not _holds_float64(networks[0]):
            products = products.in_float64()
        yield products, kinks_of(networks[0], x)


def _holds_float64(net: nn.Module) -> bool:
    return all(each.dtype is torch.float64 for each in net.parameters() if each.is_floating_point())


def _exact(products: CurvatureProducts, goal: TopGoal) -> TopEigenvalues:
    """In float64 always: it is few products of a small network."""
    if products.dtype is not torch.float64:
        products = products.in_float64()
    return whole_matrix(products, goal)


def _krylov(products: CurvatureProducts, goal: TopGoal) -> TopEigenvalues:
    """In the precision asked for, and in float64 for those networks that need it."""
    begin = goal.generator.get_state()
    by_lanczos = largest_by_lanczos if goal.top == 1 else several_by_lanczos
    found = by_lanczos(products, goal)
    index = found.spoilt(goal).nonzero()[:, 0]
    if products.dtype is torch.float32 and len(index) > 0:
        goal.generator.set_state(begin)
        double = products.take(index.tolist()).in_float64()
        warm = None if goal.warm is None else goal.warm[index]
        found = found.replaced(index, by_lanczos(double, replace(goal, warm=warm)))
    return found


def _warm(
    start: Sequence[SharpnessResult | Tensor] | None, top: int, products: CurvatureProducts
) -> Tensor | None:
    """Vectors (M, top, P) of an earlier call, or an error that says what differs."""
    if start is None:
        return None
    if len(start) != products.count:
        raise InputError(
            f"start holds {len(start)} results for {products.count} networks: pass one for each."
        )
    stacked = []
    for each in start:
        if not isinstance(each, Tensor | SharpnessResult):
            raise InputError(f"start is {type(each).__name__}: pass an earlier result, or its vectors.")
        vectors = each if isinstance(each, Tensor) else each.vectors
        vectors = vectors[None] if vectors.dim() == 1 else vectors
        if vectors.dim() != 2 or vectors.shape[1] != products.size or len(vectors) < top:
            raise InputError(
                f"start holds vectors of shape {tuple(vectors.shape)}, but {top} of {products.size} parameters are "
                "needed: warm starts need the same parameters, and as many eigenvalues."
            )
        stacked.append(vectors[:top].to(dtype=products.dtype, device=products.device))
    warm = torch.stack(stacked)
    if not bool(warm.isfinite().all()):
        raise InputError("start holds NaN or Inf: measure without it.")
    return warm


def _result(
    found: TopEigenvalues,
    member: int,
    goal: TopGoal,
    exact: bool,
    products: CurvatureProducts,
    kinks: tuple[str, ...],
) -> SharpnessResult:
    values, errors = found.values[member].cpu(), found.errors[member].cpu()
    whole = goal.whole(values)
    rounding = float(found.rounding[member])
    if not bool(values.isfinite().all()) or bool((rounding > whole).any()):
        status = Status.ROUNDING
    elif exact:
        status = Status.EXACT
    elif bool((errors <= whole * (1 + 1e-9)).all()):
        status = Status.CONVERGED
    else:
        near = bool((errors <= WARM_SLACK * whole * (1 + 1e-9)).all()) and bool(found.converged[member])
        status = Status.TRACKED if goal.warm is not None and near else Status.MAX_STEPS
    return SharpnessResult(
        value=float(values[0]),
        error=float(errors[0]),
        status=status,
        values=values,
        errors=errors,
        vectors=found.vectors[member],
        residuals=found.residuals[member].cpu(),
        rounding=rounding,
        risk=min(float(found.miss[member]), 1.0),
        steps=int(found.steps[member]),
        products=products.products,
        matrix=products.matrix,
        method="exact" if exact else "krylov",
        parameters=products.chosen,
        kinks=kinks,
    )
