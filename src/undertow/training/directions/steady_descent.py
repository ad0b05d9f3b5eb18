"""Steady descent: gradient descent whose every step lowers the objective by the same amount."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.core.sections import Positive
from undertow.training.directions.direction import euclidean_length
from undertow.training.directions.memoryless import Memoryless

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SteadyDescent"]


class SteadyDescent(Memoryless):
    """w ← w − η g/‖g‖₂², the norm over all parameters of a network: the objective falls by about η.

    Along ∇log L this follows the flow in equal steps of log L, at losses where any constant rate would be too short
    or too long: a margin of a thousand then moves by η, not by a share of itself. No step is longer than ``longest``
    of ‖w‖, so that a small start is not leapt over. The effective rates, whose sum is t, are η/‖g‖².

    >>> import torch
    >>> weights, gradients = {"w": torch.ones(1, 2)}, {"w": torch.tensor([[3.0, 4.0]])}
    >>> round(float(SteadyDescent(longest=1.0).stretch(weights, gradients, torch.tensor([0.5]))), 6)
    0.04
    """

    name: Literal["steady-gd"] = "steady-gd"
    longest: Positive = 0.01

    def stretch(
        self, weights: Mapping[str, Tensor], gradients: Mapping[str, Tensor], rates: Tensor
    ) -> Tensor | None:
        if not gradients:
            return None
        slope = euclidean_length(gradients.values())
        inverse = (1 / slope).where(slope > 0, 0.0)
        size = euclidean_length(weights[name] for name in gradients)
        longest = self.longest * size * inverse / rates.where(rates > 0, 1.0)
        return inverse.square().minimum(longest)

    def along(self, gradients: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return gradients
