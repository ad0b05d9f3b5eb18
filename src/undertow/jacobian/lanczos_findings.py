"""What batched Lanczos has found of every sample, and how far it got."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Findings", "Krylov"]


@dataclass(frozen=True)
class Krylov:
    """Per sample: Ritz value, upper bound, residual, steps, miss probability, vector on the small side."""

    value: Tensor
    upper: Tensor
    residual: Tensor
    steps: Tensor
    risk: Tensor
    converged: Tensor
    vectors: Tensor | None


class Findings:
    """The same while samples are still at work: nothing is known of them at the beginning."""

    def __init__(self, start: Tensor, *, keep_vectors: bool) -> None:
        count = len(start)
        self.value = start.new_zeros(count, dtype=torch.float64)
        self.upper = torch.full_like(self.value, math.inf)
        self.residual = torch.full_like(self.value, math.inf)
        self.risk = torch.ones_like(self.value)
        self.steps = torch.zeros(count, dtype=torch.int64, device=start.device)
        self.converged = torch.zeros_like(self.steps, dtype=torch.bool)
        self.vectors = torch.zeros_like(start) if keep_vectors else None

    def result(self) -> Krylov:
        """What is known by now."""
        return Krylov(**vars(self))
