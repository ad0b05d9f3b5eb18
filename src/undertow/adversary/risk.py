"""Adversarial risk, and Theorem 4.1 of Wang, Min & Ruan (2024) beside it.

R_rob(f, r) = E sup_{‖ε‖≤r} L(f(x + ε), y) (their Eq. 6), and to first order R_rob(f, r) ≲ R(f) + r·S(L∘f)
(their Eq. 8), with the Dirichlet energy S(L∘f) = √E‖∇_x L‖².
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from undertow.adversary.any_network import ready_to_attack, sample_by_sample
from undertow.adversary.attacks.objectives import gradient
from undertow.adversary.attacks.search import Search, begin, generator
from undertow.adversary.certificates.network_graph import NetworkGraph, graphs_of
from undertow.adversary.classifier import Classifier, Net, as_classifier
from undertow.adversary.geometry import check_norm, lengths
from undertow.adversary.joined_results import joined_risks
from undertow.adversary.radii import check_radii, several_radii
from undertow.adversary.readout import Groups
from undertow.adversary.sample_checks import as_labels
from undertow.adversary.worst_loss import LOSSES, Loss, climb, loss_values, upper_losses
from undertow.core.errors import ConfigError, nearest
from undertow.core.inference import outside_inference_mode
from undertow.core.outputs import OutputChoice
from undertow.core.shown import Shown

__all__ = ["AdversarialRisk", "RiskBoundResult", "adversarial_risk", "risk_bound"]


@dataclass(frozen=True, eq=False)
class AdversarialRisk(Shown):
    """``value``, ``clean`` and ``standard_error``: numbers, or tensors (member, ε) where there are several.

    ``losses`` are the largest losses found, axes (member, ε, sample): a lower bound of each supremum, so ``value`` is
    one of the risk. ``upper`` is a proved upper bound of the risk, from linear bounds of the network, and
    ``upper_losses`` of each supremum; inf where none can be read: the network is no chain of affine layers and ReLUs,
    it divides by the norm of its inputs, or the loss is one's own.
    """

    value: float | Tensor
    standard_error: float | Tensor
    clean: float | Tensor
    losses: Tensor
    eps: tuple[float, ...]
    norm: float
    upper: float | Tensor
    upper_losses: Tensor


@dataclass(frozen=True, eq=False)
class RiskBoundResult(Shown):
    """Both sides of Theorem 4.1 over a range of r: tensors (E,), or (M, E).

    ``gap`` = R + r·S(L∘f) − R_rob(r) is positive where the bound holds; ``lower`` and ``upper`` are its
    bootstrap interval over samples. R_rob comes from attacks, so the true gap may be smaller, but not below
    ``gap_proved`` = R + r·S(L∘f) − ``adversarial_upper``, where R_rob is replaced by its proved upper bound (−inf and
    inf where there is none).
    """

    radii: tuple[float, ...]
    risk: Tensor
    energy: Tensor
    adversarial: Tensor
    adversarial_upper: Tensor
    bound: Tensor
    gap: Tensor
    gap_proved: Tensor
    lower: Tensor
    upper: Tensor
    holds_up_to: Tensor
    """The largest r before the first negative gap; 0 when the first one is."""


@outside_inference_mode
def adversarial_risk(
    net: Classifier | Net | Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    eps: float | Sequence[float],
    loss: str | Loss = "cross-entropy",
    norm: float | str = 2,
    bounds: tuple[float, float] | None = None,
    readout: str | Groups | None = None,
    certify: bool = True,
    seed: int = 0,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> AdversarialRisk:
    """R_rob(f, ε) = E sup_{‖δ‖≤ε} L(f(x + δ), y), with the supremum searched for by APGD from several starts.

    The search climbs the loss itself and the margin, which does not saturate; radii are visited in increasing order
    and each keeps the best point of the one before, so the risk cannot decrease.

    Args:
        net: a network, a `Classifier`, or a list of networks of one architecture.
        eps: one radius, or several, in raw input units.
        loss: "cross-entropy" (for one logit: binary cross-entropy), "exponential" (e^−q), "zero-one", or a function
            (scores, labels) → losses, where one logit f appears as the scores (0, f).
        norm: 2 or "inf".
        bounds, readout: as in `Classifier`.
        certify: whether to bound the risk from above, where the layers can be read.
        seed: of the random starts.
        output: which of the network's outputs are the scores, where it has several: a name, a place, a function.
        extras: what the network takes beside x, by name, a row for each sample; samples with different rows are
            attacked one by one.

    >>> line, x, y = lambda x: x.sum(1, keepdim=True), torch.ones(1, 2).double(), torch.tensor([1])
    >>> risk = adversarial_risk(line, x, y, eps=2**0.5, loss="exponential")
    >>> round(risk.value, 4), round(risk.clean, 4), risk.upper   # the margin falls from 2 to 0; a lambda has no layers
    (1.0, 0.1353, inf)
    """
    net, x = ready_to_attack(net, x, output=output, extras=extras)
    classifier = as_classifier(net, bounds=bounds, readout=readout)
    length, function = check_norm(norm), _loss(loss)
    radii, y = check_radii(eps), as_labels(y, x)
    apart = sample_by_sample(classifier, x, y)
    if apart is not None:
        options: dict[str, Any] = {"eps": eps, "loss": loss, "norm": norm, "certify": certify, "seed": seed}
        return joined_risks([adversarial_risk(own, x[part], y[part], **options) for own, part in apart])
    with classifier.scoring(x, y) as scorer:
        search = begin(scorer, x, y, norm=length, seed=seed)
        graphs = _graphs(classifier, x) if certify else []
        clean, worst, above = _suprema(search, graphs, x, radii, function)
    spread = worst.std(2) / len(x) ** 0.5 if len(x) > 1 else torch.zeros_like(worst[..., 0])
    shaped = _Shape(classifier.several, several_radii(eps))
    return AdversarialRisk(
        value=shaped.number(worst.mean(2)),
        standard_error=shaped.number(spread),
        clean=shaped.number(clean.mean(1).unsqueeze(-1), one_eps=True),
        losses=shaped.tensor(worst),
        eps=radii,
        norm=length,
        upper=shaped.number(above.mean(2)),
        upper_losses=shaped.tensor(above),
    )


def _suprema(
    search: Search, graphs: list[NetworkGraph], x: Tensor, radii: Sequence[float], function: Loss
) -> tuple[Tensor, Tensor, Tensor]:
    """Losses (M, N) of the samples themselves; the largest found (M, E, N) at every radius, and their upper bounds."""
    scorer, y = search.scorer, search.y
    points = search.x.expand(scorer.members, -1, -1).clone()
    clean = loss_values(scorer, points, y, function)
    losses = clean.clone()
    worst: dict[float, Tensor] = {}
    upper: dict[float, Tensor] = {}
    for radius in sorted(set(radii)):
        bound = upper_losses(graphs, x, y, radius, search.norm, function, scorer.bounds).expand_as(clean)
        if radius > 0:
            losses, points = climb(
                search, radius, losses, points, function, graphs=graphs, shape=x.shape[1:], upper=bound
            )
        worst[radius], upper[radius] = losses, bound
    found, above = (torch.stack([side[radius] for radius in radii], 1) for side in (worst, upper))
    return clean, found, above


@dataclass(frozen=True)
class _Shape:
    """Results without the axes (M, E, …) of which there is only one entry because one was asked for."""

    many: bool
    several_eps: bool

    def tensor(self, value: Tensor, *, one_eps: bool = False) -> Tensor:
        value = value if self.several_eps and not one_eps else value[:, 0]
        return (value if self.many else value[0]).cpu()

    def number(self, value: Tensor, *, one_eps: bool = False) -> float | Tensor:
        chosen = self.tensor(value, one_eps=one_eps)
        return float(chosen) if chosen.ndim == 0 else chosen


def _graphs(classifier: Classifier, x: Tensor) -> list[NetworkGraph]:
    """The graph of every network from raw inputs to scores; none where one cannot be read.

    With inputs divided by their norms the graph that can be read has the same decisions, but other scores.
    """
    return [] if classifier.unit_norm else graphs_of(classifier, x)[0]


@outside_inference_mode
def risk_bound(
    net: Classifier | Net | Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    radii: Sequence[float],
    loss: str | Loss = "cross-entropy",
    bounds: tuple[float, float] | None = None,
    readout: str | Groups | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> RiskBoundResult:
    """R_rob(r) against R + r·S(L∘f) for a range of r (Theorem 4.1, L2).

    Args:
        net, x, y, output, extras: as in `adversarial_risk`.
        radii: the r, in raw input units.
        loss: one of `adversarial_risk` that has a gradient.
        bounds, readout: as in `Classifier`.
        confidence: of the bootstrap interval of each gap.
        resamples: of the samples, for that interval.
        seed: of the search and of the bootstrap.

    >>> line, x, y = lambda x: x.sum(1, keepdim=True), torch.ones(2, 2).double(), torch.tensor([1, 1])
    >>> found = risk_bound(line, x, y, radii=[0.1], loss="exponential", resamples=10)
    >>> round(float(found.risk), 4), round(float(found.energy), 4), bool(found.gap < 0)   # e^−q is convex
    (0.1353, 0.1914, True)
    """
    net, x = ready_to_attack(net, x, output=output, extras=extras)
    classifier, function = as_classifier(net, bounds=bounds, readout=readout), _loss(loss)
    if loss == "zero-one":
        raise ConfigError("the bound needs a differentiable loss: use loss='cross-entropy' or 'exponential'")
    y = as_labels(y, x)
    attacked = adversarial_risk(classifier, x, y, eps=check_radii(radii, name="radii"), loss=loss, seed=seed)
    clean, slopes = _losses_and_slopes(classifier, x, y, function)
    worst, above = (
        side if classifier.several else side.unsqueeze(0) for side in (attacked.losses, attacked.upper_losses)
    )
    limits = torch.tensor(attacked.eps, dtype=torch.float64)
    picks = torch.randint(len(x), (resamples, len(x)), generator=generator(seed, "bootstrap"))

    gap = partial(_gap, clean, slopes, worst, limits)
    observed, drawn = gap(slice(None)), torch.stack([gap(pick) for pick in picks])
    risk, energy = clean.mean(-1), slopes.square().mean(-1).sqrt()
    bound = risk.unsqueeze(-1) + limits * energy.unsqueeze(-1)
    found = {
        "risk": risk,
        "energy": energy,
        "adversarial": worst.mean(-1),
        "adversarial_upper": above.mean(-1),
        "bound": bound,
        "gap": observed,
        "gap_proved": bound - above.mean(-1),
        "lower": drawn.quantile((1 - confidence) / 2, 0),
        "upper": drawn.quantile(1 - (1 - confidence) / 2, 0),
        "holds_up_to": _first_failure(observed, limits),
    }
    return RiskBoundResult(
        attacked.eps, **{name: each if classifier.several else each[0] for name, each in found.items()}
    )


def _losses_and_slopes(classifier: Classifier, x: Tensor, y: Tensor, function: Loss) -> tuple[Tensor, Tensor]:
    """L(f(x_i), y_i) and ‖∇_x L‖₂ of every sample: (M, N) each."""
    apart = sample_by_sample(classifier, x, y)
    if apart is not None:
        parts = [_losses_and_slopes(own, x[part], y[part], function) for own, part in apart]
        return torch.cat([clean for clean, _ in parts], 1), torch.cat([slopes for _, slopes in parts], 1)
    with classifier.scoring(x, y, check=False) as scorer:
        flat = x.flatten(1).expand(scorer.members, -1, -1)
        _, clean, slope = gradient(scorer, flat, lambda s: function(s, y.expand(s.shape[:-1])))
    return clean.double().cpu(), lengths(slope, 2.0).cpu()


def _gap(clean: Tensor, slopes: Tensor, worst: Tensor, limits: Tensor, index: Tensor | slice) -> Tensor:
    """R + r·S(L∘f) − R_rob(r) over some of the samples: (M, E)."""
    energy = slopes[:, index].square().mean(-1).sqrt()
    risk = clean[:, index].mean(-1)
    return risk.unsqueeze(-1) + limits * energy.unsqueeze(-1) - worst[..., index].mean(-1)


def _first_failure(gap: Tensor, limits: Tensor) -> Tensor:
    order = limits.argsort()
    fails = (gap[:, order] < 0).cumsum(1) > 0
    return torch.where(fails, 0.0, limits[order]).amax(1)


def _loss(loss: str | Loss) -> Loss:
    if not isinstance(loss, str):
        return loss
    if loss not in LOSSES:
        raise ConfigError(f"loss {loss!r} is unknown: {nearest(loss, LOSSES)}")
    return LOSSES[loss]
