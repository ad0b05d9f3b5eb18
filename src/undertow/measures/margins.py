"""Margins of a network on data, normalised by its weights: what gradient descent enlarges (Lyu & Li 2020)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.losses import Loss, log_mean_loss
from undertow.core.outputs import OutputChoice
from undertow.core.plain_words import check_tensor
from undertow.core.scoring import (
    LossName,
    check_finite,
    chosen_parameters,
    margins_of,
    scores_of,
    scoring_samples,
)
from undertow.core.sections import NonNegative, Text
from undertow.core.shown import Shown
from undertow.core.status import Status
from undertow.measures.homogeneity import HomogeneityResult, homogeneity_of
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for
from undertow.theory.weight_norms import as_weight_norm
from undertow.theory.weight_norms import weight_norm as size_of

__all__ = ["Margins", "MarginsResult", "layer_norms", "margins", "smoothed_gap"]


@dataclass(frozen=True, eq=False)
class MarginsResult(Shown):
    """Margins of every point, the smallest, and that relative to the weights.

    Where the network is not homogeneous, ``sentence`` says so and what the normalised numbers still mean. They are NaN
    where no power of the norm fits.
    """

    value: Tensor
    """q (N,) float64: y f for one logit, s_y − max_{j≠y} s_j for several."""
    smallest: float
    """q_min; positive when every point is classified correctly."""
    order: float
    """L, measured: f(cθ) = c^L f(θ)."""
    homogeneous: bool
    norm: float
    """ρ = ‖θ‖₂ over all the parameters that were asked for, or ‖θ‖ in the norm of weights that was asked for."""
    normalised: float
    """γ̄ = q_min/ρ^L."""
    by_layers: float
    """q_min/∏_k ‖W_k‖_F over the layers, the first one's norm with its bias.

    Of a homogeneous network there must be as many factors as its order: weights that are used twice count twice, and
    where a module holds several layers' weights each tensor is a factor. NaN where no such product has L factors."""
    smoothed: float
    """γ̃ = ρ^-L ℓ⁻¹(𝓛), 𝓛 the loss summed over the points; never above γ̄."""
    log_loss: float
    """log 𝓛, natural, exact far below the smallest float."""
    support: Tensor
    """Indices of the points whose margin is within the tolerance of the smallest, in their order."""
    loss: Loss
    status: Status
    sentence: str

    @property
    def log10_loss(self) -> float:
        return self.log_loss / math.log(10)


def margins(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    loss: LossName = "auto",
    parameters: Sequence[str] = (),
    tolerance: float = 1e-2,
    weight_norm: float | str = 2,
    chunk: int | None = None,
    dtype: torch.dtype = torch.float64,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> MarginsResult:
    """q per point, q_min/ρ^L, q_min/∏‖W_k‖_F and the smoothed margin ρ^-L ℓ⁻¹(𝓛) (Lyu & Li 2020, §3 and §4.1).

    ℓ⁻¹(𝓛) = −log(e^𝓛 − 1) for the logistic loss and the cross-entropy, −log 𝓛 for the exponential loss, with 𝓛
    the *sum* of the losses. It is computed from log 𝓛, so that nothing underflows at any loss.

    Args:
        net: A module that turns points (N, …) into scores (N, k), or (N,) for one logit.
        x: The points, as they were trained on.
        y: Classes 0 … k−1; for one logit 0/1 or ±1.
        loss: ``"auto"`` is ``"logistic"`` for one logit, ``"cross-entropy"`` for several.
        parameters: Beginnings of the names that count for ρ and L, such as those trained; all where empty.
        tolerance: The support set has margins up to q_min + tolerance·|q_min|.
        weight_norm: The norm ρ of the weights: 2, 1, "inf"; "spectral", the largest spectral norm of a layer;
            "layerwise", the largest Frobenius norm of a layer. Sign descent is said to enlarge the margin for "inf",
            coordinate descent for 1, spectral descent for "spectral".
        chunk: Points in one pass; chosen by the size of the network where None.
        dtype: Precision of the forward pass. float32 gives the margins as executed, with their rounding.
        output: Which of the network's outputs holds the scores, where it has several: a name, a place, a function.
        extras: What the network takes beside x, by name, a row for each point: {"attention_mask": mask}.

    >>> net = nn.Linear(2, 1, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[3.0, 4.0]]))
    >>> found = margins(net, torch.tensor([[1.0, 0.0], [0.0, -1.0]]), torch.tensor([1, 0]), loss="exponential")
    >>> found.value.tolist(), found.smallest, found.order, round(found.normalised, 12)
    ([3.0, 4.0], 3.0, 1.0, 0.6)
    >>> round(found.smoothed, 4) == round((3 - math.log(1 + math.exp(-1))) / 5, 4)
    True
    >>> found.support.tolist()
    [0]
    >>> points, labels = torch.tensor([[1.0, 0.0], [0.0, -1.0]]), torch.tensor([1, 0])
    >>> round(margins(net, points, labels, weight_norm="inf").normalised, 12)
    0.75
    """
    if not tolerance >= 0:
        raise InputError(f"tolerance = {tolerance!r} must be 0 or more.")
    if not dtype.is_floating_point:
        raise InputError(f"dtype = {dtype} holds no scores: take torch.float64 or another floating one.")
    check_tensor(x)
    check_tensor(y, "y")
    copied, points = scoring_samples(net, x, dtype, output=output, extras=extras, copy=False)
    chosen = chosen_parameters(copied, parameters)
    scores = scores_of(copied, points, chunk=chunk).double()
    check_finite(scores, points, chosen)
    value, labels, named = margins_of(scores, y, loss)
    smallest = float(value.min())
    log_loss = float(log_mean_loss(scores, labels, named)) + math.log(len(value))
    norm = size_of(chosen.values(), as_weight_norm(weight_norm))
    exact = (
        (copied, points) if dtype == torch.float64 else scoring_samples(net, x, output=output, extras=extras)
    )
    scaling = homogeneity_of(*exact, parameters=parameters)
    log_scale = scaling.order * math.log(norm) if norm > 0 else math.nan
    layers, remark = _log_layers(copied, list(chosen), scaling)
    return MarginsResult(
        value=value,
        smallest=smallest,
        order=scaling.order,
        homogeneous=scaling.homogeneous,
        norm=norm,
        normalised=_divided(smallest, log_scale),
        by_layers=_divided(smallest, layers),
        smoothed=_divided(smoothed_gap(log_loss, named), log_scale),
        log_loss=log_loss,
        support=torch.nonzero(value <= smallest + tolerance * abs(smallest)).flatten(),
        loss=named,
        status=Status.EXACT if dtype == torch.float64 else Status.HEURISTIC,
        sentence=f"{scaling.sentence}{remark}",
    )


def smoothed_gap(log_loss: float, loss: Loss) -> float:
    """ℓ⁻¹(𝓛) from log 𝓛: the margin that one point alone would need for this loss.

    >>> smoothed_gap(-2028.0, "logistic"), smoothed_gap(math.log(math.log(2)), "logistic") + 0.0
    (2028.0, 0.0)
    """
    if loss == "exponential" or log_loss < -40:
        return -log_loss
    if log_loss > 700:
        return -math.inf
    total = math.exp(log_loss)
    # log(e^𝓛 − 1) = 𝓛 + log(1 − e^-𝓛): neither part overflows, and for small 𝓛 the second one is log 𝓛.
    return -(total + math.log(-math.expm1(-total)))


def layer_norms(net: nn.Module) -> dict[str, float]:
    """‖W_k‖_F of every module that has weights of its own; the first one's with its bias.

    >>> net = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
    >>> for each in net.parameters(): _ = nn.init.constant_(each, 2.0)
    >>> [round(norm, 4) for norm in layer_norms(net).values()]
    [2.8284, 2.0]
    """
    norms: dict[str, float] = {}
    for name, module in net.named_modules():
        own = dict(module.named_parameters(recurse=False))
        counted = [p for key, p in own.items() if not norms or key != "bias" or len(own) == 1]
        if counted:
            norms[name] = _norm(counted)
    return norms


def _log_layers(net: nn.Module, chosen: Sequence[str], scaling: HomogeneityResult) -> tuple[float, str]:
    """log ∏ ‖W_k‖_F, and where a homogeneous network has no such product with L factors NaN and why."""
    norms = layer_norms(net)
    if not scaling.homogeneous:
        return _log_product(norms.values()), ""
    # A module that the network names twice, and so calls twice, is a factor under either name.
    first = {id(module): name for name, module in net.named_modules()}
    uses = [first[id(module)] for _, module in net.named_modules(remove_duplicate=False)]
    asked = {*chosen, *(name.rpartition(".")[0] for name in chosen)}
    for factors in (
        list(norms.items()),
        [(name, norms[name]) for name in uses if name in norms],
        [(name, _norm([p])) for name, p in net.named_parameters()],
    ):
        # Scaling what was asked for scales the product by as many factors as it is in.
        if sum(name in asked for name, _ in factors) == scaling.order:
            return _log_product(norm for _, norm in factors), ""
    return math.nan, (
        f" Its {len(norms)} modules with weights are not the {scaling.order:g} factors of its order, so that a "
        "product of their norms would depend on the scale: by_layers is left out, normalised stands."
    )


def _log_product(norms: Iterable[float]) -> float:
    return sum(math.log(norm) if norm > 0 else -math.inf for norm in norms)


def _norm(tensors: Iterable[Tensor]) -> float:
    """The Euclidean norm of all entries together, in float64 and safe at any scale."""
    parts = [torch.linalg.vector_norm(tensor.detach().double()) for tensor in tensors]
    return float(torch.linalg.vector_norm(torch.stack(parts)))


def _divided(value: float, log_scale: float) -> float:
    """value/e^log_scale without forming the power."""
    if math.isnan(log_scale) or value == 0:
        return math.nan if math.isnan(log_scale) else 0.0
    if math.isinf(value) or math.isinf(log_scale):
        return value * math.inf if log_scale < 0 else value / math.exp(min(log_scale, 700))
    exponent = math.log(abs(value)) - log_scale
    return math.copysign(math.inf if exponent > 709 else math.exp(exponent), value)


class Margins(NamedMeasure):
    """The margins of the probe's points, normalised by the weights; see :func:`margins`.

    Readings: ``smallest`` (q_min), ``normalised`` (q_min/ρ^L), ``by-layers`` (q_min/∏‖W_k‖_F), ``smoothed``
    (ρ^-L ℓ⁻¹(𝓛)), ``log10-loss`` (of the loss summed over the points), ``order`` (L), ``norm`` (ρ) and ``support``, the
    number of points within ``tolerance`` of the smallest margin. What no power of the norm fits is left out.
    """

    name: ClassVar[str] = "margins"
    loss: Literal["auto", "logistic", "exponential", "bce", "cross-entropy"] = "auto"
    parameters: tuple[Text, ...] = ()
    tolerance: NonNegative = 1e-2

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        found = margins(
            net,
            x,
            labels_for(self, y),
            loss=self.loss,
            parameters=self.parameters,
            tolerance=self.tolerance,
        )
        readings = {
            "smallest": found.smallest,
            "normalised": found.normalised,
            "by-layers": found.by_layers,
            "smoothed": found.smoothed,
            "log10-loss": found.log10_loss,
            "order": found.order,
            "norm": found.norm,
            "support": float(len(found.support)),
        }
        yield from ((key, value, None) for key, value in readings.items() if not math.isnan(value))
