"""Collaboration at one seam: the co-correlation of head and tail, and the energy's decomposition there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from undertow.core.shown import Shown
from undertow.core.status import Status
from undertow.jacobian.result import JacobianNorms
from undertow.measures.energy import root_mean_square

__all__ = ["CollaborationResult", "Form", "collaborate", "relative_gap"]

Form = Literal["equation-9", "algorithm-1"]


@dataclass(frozen=True)
class CollaborationResult(Shown):
    """The statistics of one seam, net = head ∘ tail, with h = ‖J_head‖₂, t = ‖J_tail‖₂, n = ‖J_net‖₂ per sample.

    ===================== ============================================ =======
    ``co_correlation``    ϱ = √E n² / √E (h t)²                        Eq. 9
    ``linear_correlation`` ρ = E h t / (√E h² √E t²)                   Eq. 12
    ``mean``              μ = E h t                                    Eq. 13
    ``variance``          var(h t)                                     Eq. 14
    ``energy_head`` …     S(head), S(tail), S(net)                     Eq. 7
    ===================== ============================================ =======

    ``identity_gap`` is the relative gap in Theorem 4.5, S(net) = ϱ √(1 + var/μ²) ρ S(head) S(tail); it is
    rounding, for Eq. 9. ``error`` bounds the numerical error of ϱ, ``standard_error`` is its uncertainty
    from the choice of samples.
    """

    seam: str
    co_correlation: float
    linear_correlation: float
    mean: float
    variance: float
    relative_std: float
    energy_head: float
    energy_tail: float
    energy: float
    identity_gap: float
    error: float
    standard_error: float
    samples: int
    status: Status


def collaborate(
    head: JacobianNorms,
    tail: JacobianNorms,
    whole: JacobianNorms,
    *,
    seam: str = "",
    form: Form = "equation-9",
) -> CollaborationResult:
    """The statistics of a seam from the norms of its two sides and of the whole, on the same samples."""
    # ‖J_head J_tail‖ ≤ ‖J_head‖ ‖J_tail‖, and all three are lower bounds of what they estimate: where the
    # estimates contradict each other it is the product that is too small.
    product = torch.maximum(head.value * tail.value, whole.value)
    product_error = head.error * (tail.value + tail.error) + head.value * tail.error
    energy_head, _ = root_mean_square(head.value, head.error)
    energy_tail, _ = root_mean_square(tail.value, tail.error)
    energy, energy_error = root_mean_square(whole.value, whole.error)
    bound, bound_error = root_mean_square(product, product_error)
    mean = float(product.mean())
    deviation = product - mean
    count = len(product)
    if form == "algorithm-1":
        variance = float(deviation.square().sum() / max(count - 1, 1))
        numerator, denominator = float(whole.value.mean()), mean
    else:
        variance = float(deviation.square().mean())
        numerator, denominator = energy, bound
    co_correlation = _ratio(numerator, denominator)
    co_correlation = 1.0 if co_correlation > 1.0 else co_correlation  # NaN stays
    relative_std = _ratio(math.sqrt(variance), mean)
    linear = _ratio(mean, energy_head * energy_tail)
    rebuilt = co_correlation * math.hypot(1.0, relative_std) * linear * energy_head * energy_tail
    return CollaborationResult(
        seam=seam,
        co_correlation=co_correlation,
        linear_correlation=linear,
        mean=mean,
        variance=variance,
        relative_std=relative_std,
        energy_head=energy_head,
        energy_tail=energy_tail,
        energy=energy,
        identity_gap=relative_gap(rebuilt, energy),
        error=_ratio_error(numerator, energy_error, denominator, bound_error),
        standard_error=_ratio_standard_error(whole.value, product),
        samples=count,
        status=Status.worst((head.status, tail.status, whole.status)),
    )


def _ratio(numerator: float, denominator: float) -> float:
    """a/b; zero for 0/0, and NaN for what is not known."""
    if math.isnan(numerator) or math.isnan(denominator):
        return math.nan
    return numerator / denominator if denominator > 0 else 0.0


def _ratio_error(numerator: float, error: float, denominator: float, denominator_error: float) -> float:
    """How far a/b can be off when a and b are known to their errors."""
    if not math.isfinite(numerator + denominator + error + denominator_error):
        return math.inf
    if denominator <= 0:
        return 0.0 if numerator == 0 else math.inf
    low = max(denominator - denominator_error, 0.0)
    worst = (numerator + error) / low if low > 0 else math.inf
    return max(
        worst - numerator / denominator,
        numerator / denominator - (numerator - error) / (denominator + denominator_error),
    )


def _ratio_standard_error(numerator: Tensor, denominator: Tensor) -> float:
    """Delta method for √(E n² / E p²): half the relative deviation of n²/E n² − p²/E p²."""
    count = len(numerator)
    if count < 2:
        return math.inf
    top, bottom = numerator.square().mean(), denominator.square().mean()
    if bool(top.isnan() or bottom.isnan()):
        return math.nan
    if not (float(top) > 0 and float(bottom) > 0):
        return 0.0
    influence = numerator.square() / top - denominator.square() / bottom
    return float((top / bottom).sqrt() * influence.std() / (2 * math.sqrt(count)))


def relative_gap(rebuilt: float, measured: float) -> float:
    """How far a product of factors is from what it should be, relative to that."""
    return abs(rebuilt - measured) / measured if measured > 0 or math.isnan(measured) else abs(rebuilt)
