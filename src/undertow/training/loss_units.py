"""Gradients, and what an optimiser remembers of them, in units of the loss: so that neither underflows.

Adam, Signum and Muon take the same step in whatever unit gradients are written, as long as everything they remember is
in that unit too. Once the loss is 10^-400, ∇L is no float, and g² was none long before. Here ∇L is divided by a unit
e^r that follows the loss, and the memory is converted whenever r changes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from undertow.training.directions.direction import Memory

__all__ = ["LossUnits"]

_POWERS = {"first": 1, "momentum": 1, "second": 2}  # of the gradient, in buffers of these names


class LossUnits:
    """The unit e^r of each network, r = max(log L of the batch, r before + log ``forgetting``), (M,) float64.

    r falls no faster than the memory fades, so that what is remembered never overflows in the new unit.

    >>> memory = {"first.w": torch.ones(1, 1), "second.w": torch.ones(1, 1)}
    >>> first = torch.zeros(1, dtype=torch.float64)
    >>> units = LossUnits(memory, first, forgetting=0.5)
    >>> units.following(first - 9).exp().tolist()     # the loss fell by more than memories fade
    [0.5]
    >>> units.convert(units.following(first - 9), torch.tensor([True]))
    >>> memory["first.w"].item(), memory["second.w"].item(), memory["log_unit"].exp().tolist()
    (2.0, 4.0, [0.5])
    """

    def __init__(self, memory: Memory, log_unit: Tensor, *, forgetting: float) -> None:
        self._memory = memory
        self._fading = math.log(forgetting) if forgetting > 0 else -math.inf
        memory["log_unit"] = log_unit

    def following(self, log_loss: Tensor) -> Tensor:
        """r for a batch with this log of its loss."""
        return torch.maximum(log_loss, self._memory["log_unit"] + self._fading)

    def convert(self, log_unit: Tensor, running: Tensor) -> None:
        """Write in the new unit what the networks that are ``running`` remember."""
        old = self._memory["log_unit"]
        change = torch.where(running, old - log_unit, 0.0)
        for name, value in self._memory.items():
            power = _POWERS.get(name.partition(".")[0], 0)
            if power:
                factor = torch.exp(power * change).to(value)
                value.mul_(factor.view(-1, *[1] * (value.dim() - 1)))
        old.copy_(torch.where(running, log_unit, old))
