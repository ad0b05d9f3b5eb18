"""KKT residuals of the margin problem in any norm of the weights: 1 − ⟨θ, u⟩/(‖θ‖ ‖u‖_*), u = Σ λ ∇q."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.plain_attention import plain_attention
from undertow.core.plain_checkpoints import plain_checkpoints
from undertow.core.scoring import chosen_parameters, in_double, margins_of, pair_gaps, points_for, scores_of
from undertow.core.sections import NonNegative, Text
from undertow.core.status import Status
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.norm_stationarity import stationarity_of
from undertow.measures.pair_gradients import PairGradients
from undertow.measures.reading import Reading, labels_for
from undertow.theory.weight_norms import WEIGHT_NORMS, WeightNorm, dual_norm, weight_norm

__all__ = ["NormKkt", "alignment", "in_norm"]


def in_norm(
    gradients: PairGradients, gaps: Tensor, theta: Mapping[str, Tensor], norm: WeightNorm, *, kinks: float
) -> tuple[Tensor, Tensor, Tensor, float, float, int, int, Status]:
    """What ``undertow.kkt`` needs in a norm other than L2: λ, gaps, margins, residual, its error, and how it ended."""
    smallest = gaps.amin(1)
    rivals = gaps.isfinite()
    multipliers = torch.zeros_like(gaps)
    if not float(smallest.min()) > 0:  # not feasible: nothing is solved
        return multipliers, gaps.where(rivals, 0.0), smallest, 1.0, torch.inf, 0, 0, Status.EXACT
    found = stationarity_of(gradients, rivals, theta, norm, kinks=kinks)
    multipliers[rivals] = found.multipliers.to(multipliers)
    shown = gaps.where(rivals, smallest[:, None])
    return (
        multipliers,
        shown,
        smallest,
        found.residual,
        found.error,
        int(rivals.sum()),
        found.kinks,
        Status.CONVERGED,
    )


def alignment(theta: Mapping[str, Tensor], other: Mapping[str, Tensor], norm: WeightNorm) -> float:
    """⟨θ, u⟩/(‖θ‖ ‖u‖_*): in L2 the cosine."""
    product = sum(float((weight * other[name]).sum()) for name, weight in theta.items())
    dual = dual_norm([other[name] for name in theta], norm)
    return product / max(weight_norm(theta.values(), norm) * dual, 1e-300)


class NormKkt(NamedMeasure):
    """How nearly the network is a KKT point of the margin problem in each norm, on the probe's points.

    Readings for each of ``norms``: ``total:inf``, ``residual:inf``, ``slackness:inf`` and so on (see
    ``undertow.measures.norm_stationarity``); nothing before every point is classified correctly. Where units are
    within ``kinks`` of a kink their slopes are free, as in :func:`undertow.kkt`, and ``smooth:inf`` is the total with
    autograd's slopes.
    """

    name: ClassVar[str] = "norm-kkt"
    norms: tuple[Text, ...] = WEIGHT_NORMS
    parameters: tuple[Text, ...] = ()
    kinks: NonNegative = 0.0

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        copied = in_double(net)
        points = points_for(copied, x)
        theta = chosen_parameters(copied, self.parameters)
        scores = scores_of(copied, points)
        values, labels, named = margins_of(scores, labels_for(self, y), "auto")
        if not float(values.min()) > 0:
            return
        rivals = pair_gaps(scores, labels, named).isfinite()
        several = named == "cross-entropy"
        gradients = PairGradients(
            copied,
            points,
            labels=labels if several else None,
            signs=None if several else labels,
            names=list(theta),
        )
        for norm in WEIGHT_NORMS:
            if norm in self.norms:
                with plain_attention(), plain_checkpoints():
                    found = stationarity_of(gradients, rivals, theta, norm, kinks=self.kinks)
                yield f"total:{norm}", found.total, found.error
                yield f"residual:{norm}", found.residual, None
                yield f"slackness:{norm}", found.slackness, None
                if self.kinks:
                    yield f"smooth:{norm}", found.smooth, None
