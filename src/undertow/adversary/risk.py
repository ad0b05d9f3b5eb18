"""Adversarial risk, and Theorem 4.1 of Wang, Min & Ruan (2024) beside it.

R_rob(f, r) = E sup_{‖ε‖≤r} L(f(x + ε), y) (their Eq. 6), and to first order R_rob(f, r) ≲ R(f) + r·S(L∘f)
(their Eq. 8), with the Dirichlet energy S(L∘f) = √E‖∇_x L‖².
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from undertow.adversary.apgd import apgd
from undertow.adversary.classifier import Classifier, Groups, Net, Scorer, as_classifier, margins_of
from undertow.adversary.geometry import check_norm, lengths
from undertow.adversary.objectives import gradient
from undertow.adversary.search import Search, begin, generator, random_start
from undertow.adversary.validation import as_labels
from undertow.errors import ConfigError, InputError, nearest

__all__ = ["AdversarialRisk", "RiskBound", "adversarial_risk", "risk_bound"]

Loss = Callable[[Tensor, Tensor], Tensor]
"""(scores (…, k), labels (…)) → losses (…)."""


@dataclass(frozen=True, eq=False)
class AdversarialRisk:
    """``value``, ``clean`` and ``standard_error``: numbers, or tensors (member, ε) where there are several.

    ``losses`` are the largest losses found, axes (member, ε, sample): a lower bound of each supremum.
    """

    value: float | Tensor
    standard_error: float | Tensor
    clean: float | Tensor
    losses: Tensor
    eps: tuple[float, ...]
    norm: float


@dataclass(frozen=True, eq=False)
class RiskBound:
    """Both sides of Theorem 4.1 over a range of r: tensors (E,), or (M, E).

    ``gap`` = R + r·S(L∘f) − R_rob(r) is positive where the bound holds; ``lower`` and ``upper`` are its
    bootstrap interval over samples. R_rob comes from attacks, so the true gap may be smaller.
    """

    radii: tuple[float, ...]
    risk: Tensor
    energy: Tensor
    adversarial: Tensor
    bound: Tensor
    gap: Tensor
    lower: Tensor
    upper: Tensor
    holds_up_to: Tensor
    """The largest r before the first negative gap; 0 when the first one is."""


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
    seed: int = 0,
) -> AdversarialRisk:
    """R_rob(f, ε) = E sup_{‖δ‖≤ε} L(f(x + δ), y), with the supremum searched for by APGD.

    ``loss`` is "cross-entropy" (for one logit: binary cross-entropy), "exponential" (e^−q), "zero-one", or a
    function (scores, labels) → losses, where one logit f appears as the scores (0, f). The search climbs the
    loss itself and the margin, which does not saturate; radii are visited in increasing order and each keeps
    the best point of the one before, so the risk cannot decrease.

    >>> line, x, y = lambda x: x.sum(1, keepdim=True), torch.ones(1, 2).double(), torch.tensor([1])
    >>> risk = adversarial_risk(line, x, y, eps=2**0.5, loss="exponential")
    >>> round(risk.value, 4), round(risk.clean, 4)   # the margin falls from 2 to 0
    (1.0, 0.1353)
    """
    classifier, length, function = (
        as_classifier(net, bounds=bounds, readout=readout),
        check_norm(norm),
        _loss(loss),
    )
    radii = (float(eps),) if isinstance(eps, int | float) else tuple(float(radius) for radius in eps)
    if not radii or min(radii) < 0:
        raise InputError(f"eps={eps!r} must be one number ≥ 0, or several")
    y = as_labels(y, x)
    with classifier.scoring(x, y) as scorer:
        search = begin(scorer, x, y, norm=length, seed=seed)
        clean = _values(scorer, search.x.expand(scorer.members, -1, -1), y, function)
        worst: dict[float, Tensor] = {}
        losses, points = clean.clone(), search.x.expand(scorer.members, -1, -1).clone()
        for radius in sorted(set(radii)):
            if radius > 0:
                losses, points = _climb(search, radius, losses, points, function)
            worst[radius] = losses
    stacked = torch.stack([worst[radius] for radius in radii], 1)
    many, several_eps = classifier.several, not isinstance(eps, int | float)

    def shaped(value: Tensor, *, eps_axis: bool = True) -> Tensor:
        value = value if several_eps or not eps_axis else value[:, 0]
        return (value if many else value[0]).cpu()

    def number(value: Tensor, *, eps_axis: bool = True) -> float | Tensor:
        chosen = shaped(value, eps_axis=eps_axis)
        return float(chosen) if chosen.ndim == 0 else chosen

    spread = stacked.std(2) / len(x) ** 0.5 if len(x) > 1 else torch.zeros_like(stacked[..., 0])
    return AdversarialRisk(
        value=number(stacked.mean(2)),
        standard_error=number(spread),
        clean=number(clean.mean(1), eps_axis=False),
        losses=shaped(stacked),
        eps=radii,
        norm=length,
    )


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
) -> RiskBound:
    """R_rob(r) against R + r·S(L∘f) for a range of r (Theorem 4.1, L2)."""
    classifier, function = as_classifier(net, bounds=bounds, readout=readout), _loss(loss)
    if loss == "zero-one":
        raise ConfigError("the bound needs a differentiable loss: use loss='cross-entropy' or 'exponential'")
    y = as_labels(y, x)
    attacked = adversarial_risk(classifier, x, y, eps=list(radii), loss=loss, seed=seed)
    with classifier.scoring(x, y, check=False) as scorer:
        flat = x.flatten(1).expand(scorer.members, -1, -1)
        _, clean, slope = gradient(scorer, flat, lambda s: function(s, y.expand(s.shape[:-1])))
    clean, slopes = clean.double().cpu(), lengths(slope, 2.0).cpu()
    worst = attacked.losses if classifier.several else attacked.losses.unsqueeze(0)
    limits = torch.tensor(attacked.eps, dtype=torch.float64)
    picks = torch.randint(len(x), (resamples, len(x)), generator=generator(seed, "bootstrap"))

    def gap(index: Tensor | slice) -> Tensor:
        energy = slopes[:, index].square().mean(-1).sqrt()
        risk = clean[:, index].mean(-1)
        return risk.unsqueeze(-1) + limits * energy.unsqueeze(-1) - worst[..., index].mean(-1)

    observed = gap(slice(None))
    drawn = torch.stack([gap(pick) for pick in picks])
    tail = (1 - confidence) / 2
    risk, energy = clean.mean(-1), slopes.square().mean(-1).sqrt()
    several = classifier.several

    def shaped(value: Tensor) -> Tensor:
        return value if several else value[0]

    return RiskBound(
        radii=attacked.eps,
        risk=shaped(risk),
        energy=shaped(energy),
        adversarial=shaped(worst.mean(-1)),
        bound=shaped(risk.unsqueeze(-1) + limits * energy.unsqueeze(-1)),
        gap=shaped(observed),
        lower=shaped(drawn.quantile(tail, 0)),
        upper=shaped(drawn.quantile(1 - tail, 0)),
        holds_up_to=shaped(_first_failure(observed, limits)),
    )


def _climb(
    search: Search, radius: float, losses: Tensor, points: Tensor, function: Loss
) -> tuple[Tensor, Tensor]:
    """The largest losses (M, N) met within the radius, and where; never below what is given."""
    everywhere = torch.ones_like(search.distance, dtype=torch.bool)
    order = torch.arange(len(search.y), device=search.x.device).expand_as(everywhere)
    attempts: list[tuple[str | Loss, Tensor]] = [
        ("margin", points),
        ("margin", random_start(search, radius, "risk")),
    ]
    if function is not _LOSSES["zero-one"]:  # it has no slope to climb, and the margin decides it
        attempts.append((function, points))
    for climbed, start in attempts:
        for some in torch.split(order, search.chunk, 1):
            batch = search.batch(some, radius, search.second, start)
            found = apgd(
                search.scorer, batch, norm=search.norm, loss=_objective(climbed), steps=50, stop=False
            )
            new = _values(search.scorer, found.x, batch.y, function)
            better = new > losses.gather(1, some)
            losses = losses.scatter(1, some, torch.where(better, new, losses.gather(1, some)))
            members, positions = better.nonzero(as_tuple=True)
            points = points.index_put((members, some[members, positions]), found.x[members, positions])
    return losses, points


def _objective(loss: str | Loss) -> str | Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    return loss if isinstance(loss, str) else partial(_call, loss)


def _call(loss: Loss, scores: Tensor, labels: Tensor, _targets: Tensor, _scale: Tensor) -> Tensor:
    return loss(scores, labels)


def _values(scorer: Scorer, points: Tensor, y: Tensor, function: Loss) -> Tensor:
    with torch.no_grad():
        parts = [scorer(part) for part in torch.split(points, 1024, 1)]
        return function(torch.cat(parts, 1).double(), y.expand(points.shape[:2]))


def _first_failure(gap: Tensor, limits: Tensor) -> Tensor:
    order = limits.argsort()
    fails = (gap[:, order] < 0).cumsum(1) > 0
    return torch.where(fails, 0.0, limits[order]).amax(1)


def _cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    index = labels.expand(scores.shape[:-1]).unsqueeze(-1)
    return -torch.log_softmax(scores, -1).gather(-1, index).squeeze(-1)


_LOSSES: dict[str, Loss] = {
    "cross-entropy": _cross_entropy,
    "exponential": lambda scores, labels: torch.exp(-margins_of(scores, labels)),
    "zero-one": lambda scores, labels: (margins_of(scores, labels) <= 0).to(scores),
}


def _loss(loss: str | Loss) -> Loss:
    if not isinstance(loss, str):
        return loss
    if loss not in _LOSSES:
        raise ConfigError(f"loss {loss!r} is unknown: {nearest(loss, _LOSSES)}")
    return _LOSSES[loss]
