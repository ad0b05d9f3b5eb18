"""The two curves of a softmax, of which shares are 1/Σ_j exp(v_j − v_i): neither overflows, whatever the scores."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.adversary.certificates.straight_curves import Curve, number

__all__ = ["exp_of_scores", "share"]

_EPS = torch.finfo(torch.float64).eps
_SCORES = 100.0  # differences of scores from which on a share is below 10^-43


def exp_of_scores() -> Curve:
    """exp(min(h, 100)), of differences of scores: it never overflows, and `share` has what is missing."""

    def value(h: Tensor) -> Tensor:
        return torch.exp(h.clamp(max=_SCORES))

    return Curve(
        value=value,
        slope=lambda h: torch.where(h > _SCORES, 0.0, value(h)),
        breaks=(_SCORES,),
        bends=(1, 0),
        # what is too small for float64 is not zero
        error=lambda _, high: 16 * _EPS * value(high) + 1e-300,
        ends=((number(math.exp(_SCORES)), number(0.0)),),
        root=torch.log,
    )


def share() -> Curve:
    """1/max(T, 1) of a sum T of `exp_of_scores`, an entry's own term of 1 among them.

    Rounding may put limits of large sums below 1. Where a term was cut off, this is within exp(−100) of 1 / the sum.
    """
    return Curve(
        value=lambda h: 1 / h.clamp(min=1),
        slope=lambda h: torch.where(h < 1, 0.0, -1 / h.clamp(min=1) ** 2),
        breaks=(1.0,),
        bends=(0, 1),
        error=lambda low, _: 16 * _EPS / low.clamp(min=1) + math.exp(-_SCORES),
        ends=((number(0.0), number(-1.0)),),
        root=lambda a: (-1 / a.clamp(max=-1e-300)).sqrt(),
    )
