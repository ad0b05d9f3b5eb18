"""Dirichlet energy of a network, or of its loss: the root mean square of a Jacobian norm over the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from undertow.errors import InputError
from undertow.jacobian.checks import Network, check_network, prepare
from undertow.jacobian.memory import chunk_size, default_budget, graph_bytes, in_chunks
from undertow.jacobian.norms import JacobianNorms, jacobian_norms
from undertow.jacobian.operator import build_operator
from undertow.jacobian.trace import leave_no_trace
from undertow.losses import Loss, loss_gradient, prepare_labels
from undertow.status import Status

__all__ = ["Energy", "energy", "root_mean_square"]


@dataclass(frozen=True)
class Energy:
    """S = √E‖J(x)‖₂² over the samples.

    ``error`` bounds the numerical error of ``value`` on these samples; ``standard_error`` is the
    uncertainty from having drawn ``samples`` of them. The two are kept apart: more Krylov steps lower the
    first, more data the second.
    """

    value: float
    error: float
    standard_error: float
    samples: int
    status: Status
    norms: JacobianNorms | None = None


def energy(
    f: Network,
    x: Tensor,
    y: Tensor | None = None,
    *,
    loss: Loss | None = None,
    dtype: torch.dtype | None = None,
    chunk: int | None = None,
    **options: Any,
) -> Energy:
    """Dirichlet energy S(f) = √E‖J_f(x)‖₂² (Wang, Min & Ruan 2024, Eq. 7), or S(L∘f) given labels and a loss.

    With ``y`` and ``loss`` (``"cross-entropy"``, ``"bce"``, ``"logistic"``, ``"exponential"``) the function
    is the sample's own loss, S(L∘f) = √E‖∇_f Lᵀ J_f(x)‖₂² (Theorem 4.1), which is one gradient. Further
    options go to :func:`undertow.jacobian_norms`.

    >>> energy(torch.nn.Linear(3, 1, bias=False), torch.randn(8, 3)).error < 1e-4
    True
    """
    if (y is None) != (loss is None):
        missing = "loss=…" if loss is None else "y"
        raise InputError(f"the energy of the loss needs both y and loss=…: {missing} is missing.")
    if y is None or loss is None:
        norms = jacobian_norms(f, x, dtype=dtype, chunk=chunk, **options)
        value, error = root_mean_square(norms.value, norms.error)
        return Energy(value, error, _standard_error(norms.value), len(norms), norms.status, norms)
    if options:
        raise InputError(f"the energy of a loss is exact and takes no option {next(iter(options))!r}.")
    lengths, unit = _loss_gradient_norms(f, x, y, loss=loss, dtype=dtype, chunk=chunk)
    value, error = root_mean_square(lengths, lengths * unit)
    return Energy(value, error, _standard_error(lengths), len(lengths), Status.EXACT)


def root_mean_square(values: Tensor, errors: Tensor) -> tuple[float, float]:
    """√mean(v²), and how far it can be off if every v is off by at most its error.

    >>> root_mean_square(torch.tensor([3.0, 4.0]).double(), torch.zeros(2).double())[0] == 12.5**0.5
    True
    """
    # The root mean square is a norm: a change of the vector changes it by no more than the change's own norm.
    scale = float(values.abs().max().clamp_min(1e-300))
    value = scale * float((values / scale).square().mean().sqrt())
    return value, float(errors.square().mean().sqrt()) + 1e-15 * value


def _standard_error(values: Tensor) -> float:
    """Delta method: sd(v²) / (2 S √N)."""
    if len(values) < 2:
        return math.inf
    scale = values.abs().max().clamp_min(1e-300)
    squares = (values / scale).square()
    return float(
        scale * squares.std() / (2 * squares.mean().clamp_min(1e-300).sqrt() * math.sqrt(len(values)))
    )


def _loss_gradient_norms(
    f: Network, x: Tensor, y: Tensor, *, loss: Loss, dtype: torch.dtype | None, chunk: int | None
) -> tuple[Tensor, float]:
    f, x = prepare(f, x, dtype)
    if len(y) != len(x):
        raise InputError(f"x has {len(x)} samples but y has {len(y)}.")
    with leave_no_trace(f, device=x.device):
        outputs = check_network(f, x)[0].numel()
        y = prepare_labels(y.to(x.device), loss=loss, outputs=outputs, dtype=x.dtype)
        if chunk is None:
            chunk = chunk_size(len(x), 3 * graph_bytes(f, x), default_budget(x.device))

        def work(part: slice) -> Tensor:
            operator = build_operator(f, x[part])
            logits = f(x[part].detach().clone()).detach().reshape(operator.batch, -1)
            # The gradient of each sample's own loss, not of their mean.
            slope = loss_gradient(logits, y[part], loss) * operator.batch
            lengths: Tensor = torch.linalg.vector_norm(operator.vjp(slope), dim=1, dtype=torch.float64)
            return lengths

        lengths = torch.cat(list(in_chunks(len(x), chunk, work)))
    return lengths, 64 * torch.finfo(x.dtype).eps
