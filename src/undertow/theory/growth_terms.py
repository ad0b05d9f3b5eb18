"""How fast co-correlation grows, cut into the terms of Theorems 5.3 and 5.5 of Wang, Min & Ruan (2024).

A two-layer network f(x) = aᵀσ(Wx), ‖a‖₂ = 1, has ϱ² = N/K with N = E‖aᵀDW‖² and K = E‖DW‖₂², D = diag σ′(Wx).
Gradient descent makes W(t+1) = W(t) + ηG(t), and in the time s = ηt of the flow Ẇ = G. All rates are relative and
in that time: (dϱ/ds)/ϱ is what one step changes, (ϱ(t+1) − ϱ(t))/(ηϱ(t)), as η → 0. The paper's C(t) is this rate
divided by η: its Σ_τ carries no η, and with it neither does its remainder O(m^-q), which would need 1/η.

With v the top left singular vector of DW, and ½Ṅ, ½K̇ each cut at W = W(0) + (W − W(0)),

    ½Ṅ = ① + ② + E aᵀḊWWᵀDa,   ① = E⟨aᵀDG, aᵀD(W − W(0))⟩,   ② = E⟨aᵀDG, aᵀDW(0)⟩,

and ½K̇ the same with v in place of a (①′, ②′), the rate is an identity of five terms:

    ½Ṅ/N − ½K̇/K = main + replacement + remaining + inequality + dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from undertow.core.shown import Shown

__all__ = ["GrowthResult", "HeadAndTop", "relative_change", "terms"]


@dataclass(frozen=True)
class GrowthResult(Shown):
    """The relative rate of ϱ at one moment, and its terms.

    ====================  =============================================================================
    ``co_correlation``    ϱ = √(N/K)
    ``measured``          (ϱ(W + ηG) − ϱ(W)) / (ηϱ(W)): what the next step of gradient descent does
    ``exact``             (dϱ/ds)/ϱ = ½Ṅ/N − ½K̇/K
    ``main``              the theorem's main term
    ``printed``           the same with v of WWᵀ, as Theorem 5.5 prints it, and not of DWWᵀD as it proves
    ``replacement``       (① − ①′)/K − main: what putting α_i, D(τ) and v(τ) into ① and ①′ neglects
    ``remaining``         (② − ②′)/K, which the theorems call O(m^-q)
    ``inequality``        (① + ②)(1/N − 1/K): Eq. 63 and 105 leave it out as if it could not be negative
    ``dropped``           the terms of Ḋ, zero for piecewise linear σ; the proof of Theorem 5.5 sets Ḋ = 0
    ``remaining_bound``   the proof's own bound of |remaining|, with its 1/K
    ``replacement_bound`` the proof's own bound of |replacement|, which 95 % of draws of W(0) should keep
    ``norm``              K = E‖DW‖₂², for linear networks ‖W‖₂²
    ``whole_rate``        ½Ṅ/N, the relative growth of ‖aᵀDW‖
    ``tail_rate``         ½K̇/K, the relative growth of ‖DW‖
    ``alignment``         E(aᵀv)², 1 where the head is the top direction
    ====================  =============================================================================
    """

    co_correlation: float
    measured: float
    exact: float
    main: float
    printed: float
    replacement: float
    remaining: float
    inequality: float
    dropped: float
    remaining_bound: float
    replacement_bound: float
    norm: float
    whole_rate: float
    tail_rate: float
    alignment: float


@dataclass(frozen=True)
class HeadAndTop:
    """The same quantity along the head a (of N) and along the top vector v (of K): numbers as tensors."""

    head: Tensor
    top: Tensor


def terms(
    *,
    energy: HeadAndTop,
    moved: HeadAndTop,
    started: HeadAndTop,
    bent: HeadAndTop,
    main: Tensor,
    printed: Tensor,
) -> dict[str, float]:
    """The five terms and what they add up to.

    ``energy`` is (N, K), ``moved`` (①, ①′), ``started`` (②, ②′), ``bent`` the terms of Ḋ; ``main`` and ``printed``
    come before their division by K.

    >>> import torch
    >>> one = HeadAndTop(torch.tensor(1.0), torch.tensor(2.0))
    >>> parts = terms(energy=one, moved=one, started=one, bent=one, main=one.head, printed=one.top)
    >>> parts["exact"] == sum(parts[k] for k in ("main", "replacement", "remaining", "inequality", "dropped"))
    True
    """
    whole, tail = energy.head, energy.top
    frozen = HeadAndTop(moved.head + started.head, moved.top + started.top)
    whole_rate, tail_rate = (frozen.head + bent.head) / whole, (frozen.top + bent.top) / tail
    found = {
        "co_correlation": (whole / tail).sqrt(),
        "exact": whole_rate - tail_rate,
        "main": main / tail,
        "printed": printed / tail,
        "replacement": (moved.head - moved.top - main) / tail,
        "remaining": (started.head - started.top) / tail,
        "inequality": frozen.head * (1 / whole - 1 / tail),
        "dropped": bent.head / whole - bent.top / tail,
        "norm": tail,
        "whole_rate": whole_rate,
        "tail_rate": tail_rate,
    }
    return {name: float(value) for name, value in found.items()}


def relative_change(before: float, after: float, learning_rate: float) -> float:
    """(after − before) / (η·before), NaN where there is nothing to compare with.

    >>> relative_change(0.5, 0.75, 0.1)
    5.0
    """
    return (after - before) / (learning_rate * before) if before > 0 else math.nan
