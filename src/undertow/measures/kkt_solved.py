"""Multipliers of the margin problem however they were found, with what they leave and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from undertow.core.status import Status
from undertow.measures.kkt_dense import dense_multipliers
from undertow.measures.kkt_multipliers import best_multipliers
from undertow.measures.pair_gradients import PairGradients

__all__ = ["SolvedKkt", "solved_dense", "solved_gram"]


@dataclass(frozen=True, eq=False)
class SolvedKkt:
    """λ for θ scaled to norm 1, beside the gaps of its constraints, and how it was found."""

    multipliers: Tensor
    gaps: Tensor
    margins: Tensor
    residual: float
    error: float
    constraints: int
    kinks: int
    status: Status


def solved_dense(net: nn.Module, x: Tensor, labels: Tensor, **options: Any) -> SolvedKkt:
    """One constraint a point, all gradients as one matrix."""
    found = dense_multipliers(net, x, labels, **options)
    return SolvedKkt(
        found.value, found.margins, found.margins, found.residual, math.inf, len(x), 0, Status.EXACT
    )


def solved_gram(
    gradients: PairGradients, gaps: Tensor, theta: Mapping[str, Tensor], **options: Any
) -> SolvedKkt:
    """Every rival of a point, by the Gram matrix of the gradients."""
    found = best_multipliers(gradients, gaps, theta, **options)
    smallest = gaps.amin(1)
    return SolvedKkt(
        multipliers=found.value,
        gaps=gaps.where(gaps.isfinite(), smallest[:, None]),  # of no constraint: its λ is 0
        margins=smallest,
        residual=found.residual,
        error=max(found.total - found.bound, 0.0),
        constraints=found.constraints,
        kinks=found.kinks,
        status=Status.CONVERGED if found.converged else Status.MAX_STEPS,
    )
