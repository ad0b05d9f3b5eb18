"""What stable rank a two-layer network with a fixed head ends at, on orthogonal data (after Frei et al. 2023).

A KKT point of the margin problem over W alone, with the head a_j = ±1/√m, has w_j = a_j Σ_i λ_i y_i φ′_ji x_i. On
orthogonal points of equal norm all λ_i that enter a margin are then known, and so is the stable rank.

- Leaky ReLU with slope g: every neuron ends active on its own class and not on the other, so that W has two different
  rows, and ‖W‖_F²/‖W‖₂² = 2(1+g²)/(1+g)² for balanced classes.
- ReLU: a neuron that is not active on a point is not moved by it, and on orthogonal points by nothing else that would
  make it so. It keeps, of its own class, the points on which it was active at the start; those of the other class are
  left. From small random starts that is each with odds 1/2, which gives 4n₊/(n₊+1) for balanced classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["PatternLimit", "pattern_limit"]


@dataclass(frozen=True)
class PatternLimit:
    """The KKT point that has a given activation pattern: its stable rank, and its smallest multiplier."""

    stable_rank: float
    least_multiplier: float


def pattern_limit(slopes: Tensor, head: Tensor, x: Tensor, y: Tensor) -> PatternLimit | None:
    """The network w_j = a_j Σ_i λ_i y_i φ′_ji x_i whose margins are all 1, for given slopes φ′ (m, n).

    λ solves Σ_k K_ik λ_k = 1 with K_ik = y_i y_k ⟨x_i, x_k⟩ Σ_j a_j² φ′_ji φ′_jk, the margins if neurons have these
    slopes. ``head`` a is (m,), x (n, d), y ±1 (n,). None where a point moves no neuron: no margin of it can be 1.

    >>> slopes, head = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([1.0, -1.0])
    >>> found = pattern_limit(slopes, head, 2 * torch.eye(2), torch.tensor([1, -1]))
    >>> round(found.stable_rank, 6), round(found.least_multiplier, 6)
    (2.0, 0.25)
    """
    slopes, head, x, y = (each.double() for each in (slopes, head, x, y))
    signed = y[:, None] * x
    kernel = (signed @ signed.T) * ((head.square()[:, None] * slopes).T @ slopes)
    if not bool((kernel.diagonal() > 0).all()):
        return None
    ones = torch.ones(len(x), 1, dtype=torch.float64)
    # The default driver begins from memory that nobody has set: its last digits are others at every call.
    multipliers = torch.linalg.lstsq(kernel.cpu(), ones, driver="gelsd").solution[:, 0]
    weight = head[:, None] * (slopes * multipliers.to(slopes)) @ signed
    singular = torch.linalg.eigvalsh(
        weight @ weight.T if len(weight) <= weight.shape[1] else weight.T @ weight
    )
    return PatternLimit(float(singular.sum() / singular[-1]), float(multipliers.min()))
