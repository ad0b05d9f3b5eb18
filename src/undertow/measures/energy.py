"""Dirichlet energy of a network, or of its loss: the root mean square of a Jacobian norm over the data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from scipy.special import stdtrit
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.losses import Loss, loss_gradient, prepare_labels
from undertow.core.outputs import OutputChoice
from undertow.core.sections import Switch
from undertow.core.shown import Shown
from undertow.core.status import Status
from undertow.jacobian.batched_norms import batched_norms
from undertow.jacobian.memory import chunk_size, default_budget, graph_bytes, in_chunks
from undertow.jacobian.norms import JacobianNorms, jacobian_norms
from undertow.jacobian.operator import AutogradOperator
from undertow.jacobian.precisions import NetworkSamples
from undertow.jacobian.preconditions import Network, check_network, prepare
from undertow.jacobian.rounding import FEW_DRAWS, FEW_SAFETY
from undertow.jacobian.trace import leave_no_trace
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading

__all__ = ["Energy", "EnergyResult", "energy", "relative_spread", "root_mean_square", "sampling_interval"]

_BOOTSTRAP = 200  # samples beyond which Student's t alone covers as well
_WIDEST = 0.15  # relative standard error of S² beyond which an unseen tail decides about the upper end
_LONELIEST = 0.7  # share of the spread that a single sample may have


@dataclass(frozen=True)
class EnergyResult(Shown):
    """S = √E‖J(x)‖₂² over the samples.

    ``error`` bounds the numerical error of ``value`` on these samples; ``standard_error`` is the
    uncertainty from having drawn ``samples`` of them. The two are kept apart: more Krylov steps lower the
    first, more data the second. ``per_sample`` are the norms themselves.
    """

    value: float
    error: float
    standard_error: float
    samples: int
    status: Status
    per_sample: Tensor
    norms: JacobianNorms | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """A 95 % interval for the energy over the distribution that the samples were drawn from.

        Student's t for log S², or the studentised bootstrap where that is wider: of the two-sided standard error alone,
        87 to 91 % of intervals hold at ten samples. The upper end is infinite where few samples carry the energy
        (see :attr:`caution`): how large the unseen rest is, they cannot tell. Where S² has no second moment, not
        even that is certain: of a tail P(v > t) = t^-2.5 the interval covers 79 to 88 %.
        """
        return sampling_interval(self.per_sample)

    @property
    def caution(self) -> str:
        """When the interval promises nothing above: the sentence that says why, or nothing."""
        if self.interval[1] < math.inf:
            return ""
        return (
            f"{self.samples} samples cannot bound this energy from above: a few of them carry most of it (the relative "
            f"standard error of S² is {relative_spread(self.per_sample):.0%}); measure on more samples."
        )


def energy(
    f: Network,
    x: Tensor,
    y: Tensor | None = None,
    *,
    loss: Loss | None = None,
    dtype: torch.dtype | None = None,
    chunk: int | None = None,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
    **options: Any,
) -> EnergyResult:
    """Dirichlet energy S(f) = √E‖J_f(x)‖₂² (Wang, Min & Ruan 2024, Eq. 7), or S(L∘f) given labels and a loss.

    With ``y`` and ``loss`` the function is the sample's own loss, S(L∘f) = √E‖∇_f Lᵀ J_f(x)‖₂² (Theorem 4.1), which is
    one gradient.

    Args:
        f: a network, or a function of one tensor.
        x: samples, (N, …).
        y: a label for each, where the energy of the loss is meant.
        loss: "cross-entropy", "bce", "logistic" or "exponential".
        dtype: the precision to measure in, on a copy of the network.
        chunk: samples at a time; by default as many as memory allows.
        output: which of the network's outputs is meant, as in :func:`undertow.jacobian_norms`.
        extras: what the network takes beside x, a row for each sample.
        options: go to :func:`undertow.jacobian_norms`, where no loss is given.

    >>> energy(torch.nn.Linear(3, 1, bias=False), torch.randn(8, 3)).error < 1e-4
    True
    """
    if (y is None) != (loss is None):
        missing = "loss=…" if loss is None else "y"
        raise InputError(f"the energy of the loss needs both y and loss=…: {missing} is missing.")
    if y is None or loss is None:
        norms = jacobian_norms(f, x, dtype=dtype, chunk=chunk, output=output, extras=extras, **options)
        value, error = root_mean_square(norms.value, norms.error)
        return EnergyResult(
            value, error, _standard_error(norms.value), len(norms), norms.status, norms.value, norms
        )
    if options:
        raise InputError(f"the energy of a loss is exact and takes no option {next(iter(options))!r}.")
    f, x = prepare(f, x, dtype, output=output, extras=extras)
    lengths, errors = _loss_gradient_norms(f, x, y, loss=loss, chunk=chunk)
    value, error = root_mean_square(lengths, errors)
    known = bool((errors <= 1e-3 * lengths).all())
    status = Status.EXACT if known else Status.ROUNDING
    return EnergyResult(value, error, _standard_error(lengths), len(lengths), status, lengths)


class Energy(NamedMeasure):
    """Dirichlet energy S(net), the root mean square over the points of ‖J(x_i)‖₂; the truth lies above a reading.

    ``rtol`` bounds the error of every norm, by default as :func:`undertow.jacobian_norms` has it. With
    ``standard_error`` there is a reading of that name too, the uncertainty by the choice of points.

    >>> line = nn.Linear(1, 1, bias=False).requires_grad_(False)
    >>> _ = line.weight.fill_(2.0)
    >>> [key for key, _, _ in Energy(standard_error=True, points=4)(line, torch.ones(9, 1), None)]
    ['', 'standard_error']
    """

    name: ClassVar[str] = "energy"
    rtol: Annotated[float, Field(strict=True, gt=0, lt=1)] | None = None
    standard_error: Switch | None = None

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        result = energy(net, x, **self._options())
        yield from self._readings(float(result.value), float(result.error), result.per_sample)

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:  # noqa: ARG002
        """All networks' Jacobians as one batch."""
        several = batched_norms(networks, x, **self._options())
        return [
            list(self._readings(*root_mean_square(norms.value, norms.error), norms.value))
            for norms in several
        ]

    def _options(self) -> dict[str, Any]:
        return {} if self.rtol is None else {"rtol": self.rtol}

    def _readings(self, value: float, error: float, norms: Tensor) -> Iterator[Reading]:
        yield "", value, error
        if self.standard_error:
            yield "standard_error", _standard_error(norms), None


def root_mean_square(values: Tensor, errors: Tensor) -> tuple[float, float]:
    """√mean(v²), and how far it can be off if every v is off by at most its error.

    >>> root_mean_square(torch.tensor([3.0, 4.0]).double(), torch.zeros(2).double())[0] == 12.5**0.5
    True
    """
    # The root mean square is a norm: a change of the vector changes it by no more than the change's own norm.
    if bool(values.isnan().any()):
        return math.nan, math.inf
    scale = float(values.abs().max().clamp_min(1e-300))
    value = scale * float((values / scale).square().mean().sqrt())
    return value, float(errors.square().mean().sqrt()) + 1e-15 * value


def relative_spread(values: Tensor) -> float:
    """The standard error of the mean of v², relative to it."""
    squares = (values / values.abs().max().clamp_min(1e-300)).square()
    return float(squares.std() / squares.mean().clamp_min(1e-300) / math.sqrt(len(values)))


def sampling_interval(values: Tensor, *, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """An interval for √E v² of what the values were drawn from; without an upper end where they cannot give one.

    >>> low, high = sampling_interval(torch.linspace(0.9, 1.1, 50).double())
    >>> round(low, 2), round(high, 2)
    (0.98, 1.02)
    >>> sampling_interval(torch.tensor([1.0, 1.0, 1.0, 30.0]).double())[1]
    inf
    """
    count = len(values)
    if count < 2 or not bool(values.isfinite().all()) or not bool(values.max() > 0):
        return 0.0, math.inf
    data = values.detach().double().cpu().numpy()
    scale = float(data.max())
    squares = (data / scale) ** 2
    spread = float(squares.std(ddof=1) / squares.mean() / math.sqrt(count))
    low_t = high_t = float(stdtrit(count - 1, (1 + level) / 2))
    if count <= _BOOTSTRAP and spread > 0:
        drawn = squares[np.random.default_rng(seed).integers(0, count, (1999, count))]
        spreads = drawn.std(axis=1, ddof=1) / drawn.mean(axis=1) / math.sqrt(count)
        t = np.log(drawn.mean(axis=1) / squares.mean()) / np.maximum(spreads, 1e-12)
        low_t = max(low_t, float(np.quantile(t, (1 + level) / 2)))
        high_t = max(high_t, -float(np.quantile(t, (1 - level) / 2)))
    centre = math.log(squares.mean())
    low, high = scale * math.exp((centre - low_t * spread) / 2), math.inf
    # One sample in charge of the spread is how a tail looks that the samples have hardly met.
    outlier = (
        (squares.max() - squares.mean()) / (squares.std(ddof=1) * math.sqrt(count)) if spread > 0 else 0.0
    )
    if spread <= _WIDEST and outlier <= _LONELIEST:
        high = scale * math.exp((centre + high_t * spread) / 2)
    return low, high


def _standard_error(values: Tensor) -> float:
    """Delta method: sd(v²) / (2 S √N)."""
    if bool(values.isnan().any()):
        return math.nan
    if len(values) < 2:
        return math.inf
    scale = values.abs().max().clamp_min(1e-300)
    squares = (values / scale).square()
    return float(
        scale * squares.std() / (2 * squares.mean().clamp_min(1e-300).sqrt() * math.sqrt(len(values)))
    )


def _loss_gradient_norms(
    f: Network, x: Tensor, y: Tensor, *, loss: Loss, chunk: int | None
) -> tuple[Tensor, Tensor]:
    """‖∇_x L(f(x_i), y_i)‖₂ of every sample and a bound on its rounding, in float64 where that shows otherwise."""
    if len(y) != len(x):
        raise InputError(f"x has {len(x)} samples but y has {len(y)}.")
    with leave_no_trace(f, device=x.device):
        outputs = check_network(f, x)[0].numel()
        y = prepare_labels(y.to(x.device), loss=loss, outputs=outputs, dtype=x.dtype)
        samples = NetworkSamples(f, x)
        samples.refuse_places()
        if chunk is None:
            chunk = chunk_size(len(x), 4 * graph_bytes(f, x), default_budget(x.device))
        every = torch.arange(len(x), device=x.device)

        def work(part: slice) -> tuple[Tensor, Tensor]:
            lengths, errors = _gradient_lengths(samples, every[part], y, loss)
            again = (~(errors <= 1e-4 * lengths)).nonzero()[:, 0]
            if len(again) > 0 and x.dtype is not torch.float64:
                better = _gradient_lengths(samples.double, every[part][again], y, loss)
                lengths[again], errors[again] = (each.to(lengths) for each in better)
            return lengths, errors

        found = list(in_chunks(len(x), chunk, work))
    return torch.cat([lengths for lengths, _ in found]), torch.cat([errors for _, errors in found])


def _gradient_lengths(samples: NetworkSamples, index: Tensor, y: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """The lengths of some samples' gradients, and what a perturbed computation makes of them."""
    index = index.to(samples.x.device)
    targets = y.to(samples.x.device)[index]
    targets = targets.to(samples.x.dtype) if targets.is_floating_point() else targets

    def gradients(operator: AutogradOperator) -> Tensor:
        logits = operator.output.reshape(operator.batch, -1)
        # The gradient of each sample's own loss, not of their mean.
        return operator.vjp(loss_gradient(logits, targets, loss) * operator.batch)

    given = gradients(samples.by_autograd(index))
    moved = [gradients(samples.by_autograd(index, draw=draw)) for draw in range(FEW_DRAWS)]
    gaps = torch.stack([torch.linalg.vector_norm(each - given, dim=1, dtype=torch.float64) for each in moved])
    lengths: Tensor = torch.linalg.vector_norm(given, dim=1, dtype=torch.float64)
    return lengths, FEW_SAFETY * gaps.amax(0) + 16 * torch.finfo(given.dtype).eps * lengths
