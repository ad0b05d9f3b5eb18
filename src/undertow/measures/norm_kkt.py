"""KKT residuals of the margin problem in any norm of the weights: 1 − ⟨θ, u⟩/(‖θ‖ ‖u‖_*), u = Σ λ ∇q.

A network is a KKT point of min ‖θ‖ such that all q ≥ 1 where some λ ≥ 0 on the smallest margins give a u with
⟨θ, u⟩ = ‖θ‖ ‖u‖_*. Over λ with sum 1 the smallest ‖u‖_* is the largest margin of the linear problem whose rows are
the gradients ∇q_i (``undertow.theory.max_margin``): so θ is compared with the best direction for the network as it is
linearised at θ, and the answer is proved from both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from undertow.core.scoring import chosen_parameters, in_double, margins_of, pair_gaps, scores_of
from undertow.core.sections import Text
from undertow.core.status import Status
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for
from undertow.theory.max_margin import max_margin
from undertow.theory.weight_norms import WEIGHT_NORMS, WeightNorm, dual_norm, weight_norm

__all__ = ["NormKkt", "NormStationarity", "alignment", "in_norm", "stationarity"]


@dataclass(frozen=True, eq=False)
class NormStationarity:
    """How nearly θ is a KKT point in one norm."""

    total: float
    """1 − (1 − residual)(1 − slackness), which the λ minimise: 0 at a KKT point and nowhere else."""
    residual: float
    """1 − ⟨θ, u⟩/(‖θ‖ ‖u‖_*)."""
    slackness: float
    """Σ λ (q − q_min)/Σ λ q."""
    multipliers: Tensor
    """λ (m,) ≥ 0 with ‖Σ λ ∇q‖_* = 1."""
    error: float
    """No other λ have a total that is smaller by more than this."""


def stationarity(rows: Tensor, theta: Sequence[Tensor], norm: WeightNorm) -> NormStationarity:
    """The λ ≥ 0 that make 1 − (⟨θ, u⟩ − slack)/(‖θ‖ ‖u‖_*) smallest, u = Σ λ_i a_i, a_i = ∇q_i the ``rows`` (m, P).

    With ⟨θ, ∇q_i⟩ = L q_i the numerator is L q_min Σ λ: weight on larger margins counts for nothing. θ must have a
    positive margin, ⟨a_i, θ⟩ > 0 for all i.

    >>> rows = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> [round(stationarity(rows, [torch.tensor([1.0, 1.0])], norm).total, 6) for norm in ("2", "inf", "1")]
    [0.0, 0.0, 0.0]
    >>> round(stationarity(rows, [torch.tensor([2.0, 1.0])], "inf").total, 6)   # margin 1/2, and 1 could be had
    0.5
    """
    flat = torch.cat([weight.detach().double().flatten() for weight in theta])
    gaps = rows.double() @ flat
    best = max_margin(rows, norm=norm, shapes=[tuple(weight.shape) for weight in theta])
    size, least = weight_norm(theta, norm), float(gaps.min())
    carried = float(best.multipliers @ gaps.cpu())
    total = 1 - least / (size * best.upper)
    return NormStationarity(
        total=total,
        residual=1 - carried / (size * best.upper),
        slackness=1 - least / carried,
        multipliers=best.multipliers / best.upper,
        error=max(total - (1 - least / (size * best.value)), 0.0),
    )


def in_norm(
    net: nn.Module,
    x: Tensor,
    gaps: Tensor,
    theta: Mapping[str, Tensor],
    signs: Tensor | None,
    norm: WeightNorm,
) -> tuple[Tensor, Tensor, Tensor, float, float, int, int, Status]:
    """What ``undertow.kkt`` needs in a norm other than L2: λ, gaps, margins, residual, its error, and how it ended."""
    smallest = gaps.amin(1)
    rivals = gaps.isfinite()
    multipliers = torch.zeros_like(gaps)
    if not float(smallest.min()) > 0:  # not feasible: nothing is solved
        return multipliers, gaps.where(rivals, 0.0), smallest, 1.0, torch.inf, 0, 0, Status.EXACT
    found = stationarity(_rows(net, x, rivals, theta, signs), list(theta.values()), norm)
    multipliers[rivals] = found.multipliers.to(multipliers)
    shown = gaps.where(rivals, smallest[:, None])
    return multipliers, shown, smallest, found.residual, found.error, int(rivals.sum()), 0, Status.CONVERGED


def alignment(theta: Mapping[str, Tensor], other: Mapping[str, Tensor], norm: WeightNorm) -> float:
    """⟨θ, u⟩/(‖θ‖ ‖u‖_*): in L2 the cosine."""
    product = sum(float((weight * other[name]).sum()) for name, weight in theta.items())
    dual = dual_norm([other[name] for name in theta], norm)
    return product / max(weight_norm(theta.values(), norm) * dual, 1e-300)


def _rows(
    net: nn.Module, x: Tensor, rivals: Tensor, theta: Mapping[str, Tensor], signs: Tensor | None
) -> Tensor:
    """∇(s_y − s_j) of every point and rival, (m, P), with autograd's slopes at kinks; ±∇f for one logit."""
    fixed = {name: p.detach() for name, p in net.named_parameters()}
    copies = {name: p.expand(len(x), *p.shape).clone().requires_grad_() for name, p in theta.items()}

    def scores_at(weights: dict[str, Tensor], sample: Tensor) -> Tensor:
        found: Tensor = functional_call(net, {**fixed, **weights}, (sample[None],))[0]
        return found.flatten()

    with torch.enable_grad():
        scores = vmap(scores_at)(copies, x)
        columns = []
        for output in range(scores.shape[1]):
            slopes = torch.autograd.grad(scores[:, output].sum(), list(copies.values()), retain_graph=True)
            columns.append(torch.cat([slope.flatten(1) for slope in slopes], dim=1))
    gradients = torch.stack(columns, dim=1)  # (N, k, P)
    if signs is not None:
        return gradients[:, 0] * signs[:, None]
    own = gradients[~rivals]  # one for each point: at j = y the gap is infinite
    return (own[:, None] - gradients)[rivals]


class NormKkt(NamedMeasure):
    """How nearly the network is a KKT point of the margin problem in each norm, on the probe's points.

    Readings for each of ``norms``: ``total:inf``, ``residual:inf``, ``slackness:inf`` and so on (see
    :class:`NormStationarity`); nothing before every point is classified correctly.
    """

    name: ClassVar[str] = "norm-kkt"
    norms: tuple[Text, ...] = WEIGHT_NORMS
    parameters: tuple[Text, ...] = ()

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        copied, points = in_double(net), x.double()
        theta = chosen_parameters(copied, self.parameters)
        scores = scores_of(copied, points)
        values, labels, named = margins_of(scores, labels_for(self, y), "auto")
        if not float(values.min()) > 0:
            return
        gaps = pair_gaps(scores, labels, named)
        rows = _rows(copied, points, gaps.isfinite(), theta, None if named == "cross-entropy" else labels)
        for norm in WEIGHT_NORMS:
            if norm in self.norms:
                found = stationarity(rows.cpu(), [weight.cpu() for weight in theta.values()], norm)
                yield f"total:{norm}", found.total, found.error
                yield f"residual:{norm}", found.residual, None
                yield f"slackness:{norm}", found.slackness, None
