"""Linear functions below rows·value on a ball, and what follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.geometry import dual_lengths_above

__all__ = ["LowerBounds"]


@dataclass(frozen=True, eq=False)
class LowerBounds:
    """rows·value ≥ A·x' + c ≥ ``lower`` (B, K) on the ball, A the ``rows`` (B, K, d), A·δ ≥ ``step`` (B, K)."""

    lower: Tensor
    rows: Tensor
    step: Tensor
    rounding: float

    def detached(self) -> LowerBounds:
        """The same numbers, without what they depend on."""
        return LowerBounds(self.lower.detach(), self.rows.detach(), self.step.detach(), self.rounding)

    def radii(self, norm: float) -> Tensor:
        """(A·x + c)/‖A‖_dual (B, K): rows·value > 0 at every point of the ball that is nearer than that.

        Rounding of A·x + c has been taken off, that of the division is here. ∞ or −∞ where A is zero.
        """
        length = dual_lengths_above(self.rows, norm)
        level = self.lower - self.step
        safe = 1 - 4 * self.rounding
        found = torch.where(length > 0, level / length.clamp(min=1e-300) * safe, level.sign() * math.inf)
        return torch.nan_to_num(found, nan=-math.inf, posinf=math.inf, neginf=-math.inf)
