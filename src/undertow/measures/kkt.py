"""How nearly a network is a KKT point of the margin problem (Lyu & Li 2020, §4.4; Frei et al. 2023)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from undertow.core.errors import InputError, ModelError, nearest
from undertow.core.inference import outside_inference_mode
from undertow.core.losses import log_loss_gradient
from undertow.core.outputs import OutputChoice
from undertow.core.plain_attention import plain_attention
from undertow.core.plain_checkpoints import plain_checkpoints
from undertow.core.plain_words import check_tensor
from undertow.core.scoring import (
    LossName,
    check_finite,
    chosen_parameters,
    margins_of,
    pair_gaps,
    scores_of,
    scoring_samples,
)
from undertow.core.sections import Count, NonNegative, Text, WithLaterOptions
from undertow.core.shown import Shown
from undertow.core.status import Status
from undertow.measures.homogeneity import HomogeneityResult, homogeneity_of
from undertow.measures.kkt_solved import SolvedKkt, solved_dense, solved_gram
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.norm_kkt import alignment, in_norm
from undertow.measures.pair_gradients import PairGradients
from undertow.measures.reading import Reading, labels_for
from undertow.theory.weight_norms import as_weight_norm

__all__ = ["KktMethod", "KktResiduals", "KktResult", "kkt"]

KktMethod = Literal["gram", "dense"]
_METHODS = ("gram", "dense")


@dataclass(frozen=True, eq=False)
class KktResult(Shown):
    """Residuals of the KKT conditions of (P): min ½‖θ‖² such that s_y(x_n) − s_j(x_n) ≥ 1 for all n and j ≠ y.

    Residual and slackness are unchanged when a homogeneous network is scaled; the misalignment is not, since the loss
    weighs points by the size of their margins. Without ``feasible`` the rest means nothing.
    """

    residual: float
    """‖θ − Σ λ_nj ∇(s_y − s_j)‖/‖θ‖ for the λ found: 0 at a KKT point, 1 where no multipliers help."""
    slackness: float
    """Σ λ_nj (q_nj − q_min)/Σ λ_nj q_nj: 0 when only the smallest margins carry weight."""
    misalignment: float
    """1 − cos(θ, −∇𝓛), the part of stationarity that gradient descent's own multipliers give."""
    multipliers: Tensor
    """λ of (P) at θ/q_min^(1/L), where the smallest margin is 1: (N,) for one logit, (N, k) for k classes with zeros
    at the right one. On a linear network these are the duals of the support vector machine. Without a positive order,
    or where a point is misclassified, for θ scaled to norm 1."""
    margins: Tensor
    """q_n = min_j q_nj, (N,) in float64."""
    error: float
    """The root of residual² + slack², which the λ minimise, is at most this above what any λ ≥ 0 reach; infinite where
    nothing is known."""
    order: float
    constraints: int
    """How many constraints had a place in the Gram matrix at the end."""
    kinks: int
    """How many points had a unit at its kink, whose slope was free."""
    status: Status
    sentence: str

    @property
    def margin_gap(self) -> float:
        """q_min."""
        return float(self.margins.min())

    @property
    def feasible(self) -> bool:
        """Whether every point is classified correctly: scaled up, the network then meets all constraints."""
        return self.margin_gap > 0


@outside_inference_mode
def kkt(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    loss: LossName = "auto",
    parameters: Sequence[str] = (),
    kinks: float = 1e-6,
    limit: int = 5000,
    method: KktMethod = "gram",
    max_rounds: int = 30,
    weight_norm: float | str = 2,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> KktResult:
    """Residuals of the KKT conditions at the network's parameters, and the multipliers that come nearest.

    The λ minimise the sum of squares of both residuals, stationarity and Σ λ_nj (q_nj − q_min)/‖θ‖, over λ ≥ 0, by
    an active set on the Gram matrix of the constraints' gradients. The ``limit`` smallest margins are taken in first;
    then every constraint is priced by one forward pass with derivatives, and those that would help are taken in
    until ``error`` says that no λ does better. Everything is in float64, and the misalignment uses ∇log 𝓛, which
    exists however small the loss is.

    Args:
        net: A module that turns points (N, …) into scores (N, k), or (N,) for one logit.
        x: The points trained on.
        y: Classes 0 … k−1; for one logit 0/1 or ±1.
        loss: Of the misalignment; ``"auto"`` is logistic for one logit, cross-entropy for several.
        parameters: Beginnings of the names of what was trained; all where empty.
        kinks: A ReLU (or leaky ReLU) module whose input is within this share of zero, relative to the largest that the
            unit has on these points, is at its kink: its slope is any between both sides, as Clarke's derivative has
            it. The default frees only what rounding could have put on either side; 0 takes autograd's slopes.
            Ties of max-pooling and rectifiers that are no modules keep autograd's slopes. With one hidden layer
            the best slopes are found; with more, good ones, and ``error`` does not cover better ones. Where there are
            more than 2²⁵ units × constraints, slopes are free at the points of the first ``limit`` constraints only.
        limit: Constraints in the Gram matrix at first.
        method: ``"dense"`` takes the nearest rival of each point only, autograd's slopes and all gradients as one
            matrix: small networks, for comparison.
        max_rounds: How often constraints may be taken in.
        weight_norm: Of (P): 2, 1, "inf", "spectral" or "layerwise". In others than 2 the residual is
            1 − ⟨θ, u⟩/(‖θ‖ ‖u‖_*) for u = Σ λ ∇q, and the misalignment that of u = −∇𝓛
            (``undertow.measures.norm_stationarity``).
        output: Which of the network's outputs holds the scores, where it has several: a name, a place, a function.
        extras: What the network takes beside x, by name, a row for each point: {"attention_mask": mask}.

    >>> import torch
    >>> net = nn.Linear(2, 1, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, 1.0]]))
    >>> x, y = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([1, 1])
    >>> found = kkt(net, x, y)                                  # the hard-margin SVM: w = x₁ + x₂
    >>> round(found.residual, 6), round(found.slackness, 6), [round(v, 4) for v in found.multipliers.tolist()]
    (0.0, 0.0, [1.0, 1.0])
    >>> _ = net.weight.data.copy_(torch.tensor([[2.0, 1.0]]))
    >>> found = kkt(net, x, y)                                  # 2x₁ + x₂, but the margin of x₁ is not the smallest
    >>> round(found.residual, 3), round(found.slackness, 3)
    (0.149, 0.385)
    """
    if method not in _METHODS:
        raise InputError(f"method = {method!r} is unknown; {nearest(str(method), _METHODS)}")
    if limit < 1 or max_rounds < 1 or not kinks >= 0:
        raise InputError(
            f"limit = {limit!r} and max_rounds = {max_rounds!r} must be 1 or more, kinks = {kinks!r} 0 or more."
        )
    check_tensor(x)
    check_tensor(y, "y")
    copied, points = scoring_samples(net, x, output=output, extras=extras)
    theta = chosen_parameters(copied, parameters)
    scores = scores_of(copied, points)
    check_finite(scores, points, theta)
    if not any(bool(weight.any()) for weight in theta.values()):
        raise ModelError("every parameter is zero: there is no direction to test.")
    _, labels, named = margins_of(scores, y, loss)
    signs = None if named == "cross-entropy" else (2 * labels - 1 if named == "bce" else labels)
    with plain_attention(), plain_checkpoints():
        gradients = PairGradients(
            copied, points, labels=labels if signs is None else None, signs=signs, names=list(theta)
        )
        descent = gradients.combined(-log_loss_gradient(scores, labels, named))
        norm = as_weight_norm(weight_norm)
        if norm != "2":
            gaps = pair_gaps(scores, labels, named)
            solved = SolvedKkt(*in_norm(gradients, gaps, theta, norm, kinks=kinks))
        elif method == "dense":
            solved = solved_dense(
                copied, points, labels, loss=named, outputs=scores.shape[1], names=list(theta)
            )
        else:
            gaps = pair_gaps(scores, labels, named)
            solved = solved_gram(gradients, gaps, theta, limit=limit, kinks=kinks, max_rounds=max_rounds)
    smallest = float(solved.margins.min())
    carried = float((solved.multipliers * solved.gaps).sum())
    excess = float((solved.multipliers * (solved.gaps - solved.margins.min())).sum())
    scaling = homogeneity_of(copied, points, parameters=parameters)
    multipliers = _of_problem(solved.multipliers, theta, smallest, scaling.order)
    return KktResult(
        residual=solved.residual,
        slackness=excess / carried if carried > 0 else 1.0,
        misalignment=1 - alignment(theta, descent, norm),
        multipliers=multipliers.flatten() if scores.shape[1] == 1 else multipliers,
        margins=solved.margins,
        error=solved.error,
        order=scaling.order,
        constraints=solved.constraints,
        kinks=solved.kinks,
        status=solved.status,
        sentence=_sentence(smallest, solved, scaling),
    )


def _of_problem(value: Tensor, theta: Mapping[str, Tensor], smallest: float, order: float) -> Tensor:
    """λ of (P) from λ̂ with θ/‖θ‖ = Σ λ̂ ∇q(θ): at θ/q^(1/L) gradients are q^((1−L)/L) of those at θ."""
    if not smallest > 0 or not order > 0:
        return value
    size = math.hypot(*(float(weight.norm()) for weight in theta.values()))
    return value * math.exp(math.log(size) + (order - 2) / order * math.log(smallest))


def _sentence(smallest: float, solved: SolvedKkt, scaling: HomogeneityResult) -> str:
    if not smallest > 0:
        return (
            f"A point is misclassified (its margin is {smallest:.3g}), so no scaling of the network meets the "
            "constraints: train on until every point is classified."
        )
    # Of order 0 or less ⟨θ, ∇q⟩ = L q is never positive: no multipliers leave less than all of θ.
    if not solved.status.ok and not scaling.order <= 0:
        return (
            f"Other multipliers may leave up to {solved.error:.2g} less: raise max_rounds or limit, or take fewer "
            "points."
        )
    return scaling.sentence


class KktResiduals(WithLaterOptions, NamedMeasure):
    """How nearly the network is a KKT point of the margin problem, on the probe's points: those trained on.

    Readings: ``residual``, ``slackness``, ``misalignment`` as in :class:`KktResult`, ``margin`` = q_min/‖θ‖ and
    ``supporting``, the share of points with a positive multiplier. ``parameters`` are the beginnings of the names of
    what was trained (all where empty).

    ``method`` "dense" is what the first trials were stored with: one constraint for each point, all gradients as one
    matrix. With "gram" every rival of a point is a constraint, slopes within ``kinks`` of a kink are free, and
    the residual has an error.
    """

    LATER = ("method", "kinks", "constraints")

    name: ClassVar[str] = "kkt"
    loss: Literal["logistic", "exponential", "bce", "cross-entropy"] = "logistic"
    parameters: tuple[Text, ...] = ()
    method: KktMethod = "dense"
    kinks: NonNegative = 1e-6
    constraints: Count = 5000

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        found = kkt(
            net,
            x,
            labels_for(self, y),
            loss=self.loss,
            parameters=self.parameters,
            method=self.method,
            kinks=self.kinks,
            limit=self.constraints,
        )
        size = sum(
            float(p.detach().double().square().sum())
            for name, p in net.named_parameters()
            if not self.parameters or name.startswith(self.parameters)
        )
        error = found.error if math.isfinite(found.error) else None
        yield "residual", found.residual, error
        yield "slackness", found.slackness, None
        yield "misalignment", found.misalignment, None
        yield "margin", found.margin_gap / size**0.5, None
        most = float(found.multipliers.max())
        carrying = found.multipliers > 1e-6 * most
        yield (
            "supporting",
            float((carrying if carrying.dim() == 1 else carrying.any(1)).double().mean()),
            None,
        )
