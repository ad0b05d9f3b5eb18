"""Gradient descent with momentum (Polyak 1964)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.core.sections import Fraction, NonNegative
from undertow.training.directions.direction import Direction, Memory, buffers, move

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["HeavyBall"]


class HeavyBall(Direction):
    """b ← μ b + ∇L + λ w, w ← w − η b, as ``torch.optim.SGD`` has it; ``weight_decay`` is λ.

    >>> HeavyBall(momentum=0.5)
    HeavyBall(name='heavy-ball', momentum=0.5, weight_decay=0.0)
    """

    name: Literal["heavy-ball"] = "heavy-ball"
    momentum: Fraction = 0.9
    weight_decay: NonNegative = 0.0

    @property
    def plain(self) -> bool:
        return not self.momentum and not self.weight_decay

    def start(self, weights: Mapping[str, Tensor]) -> Memory:
        return buffers("momentum", weights) if self.momentum else {}

    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        memory: Memory,
        rates: Tensor,
    ) -> None:
        for name, gradient in gradients.items():
            direction = gradient
            if self.weight_decay:
                direction = gradient.add(weights[name], alpha=self.weight_decay)
            if self.momentum:
                direction = memory[f"momentum.{name}"].mul_(self.momentum).add_(direction)
            move(weights[name], direction, rates)
