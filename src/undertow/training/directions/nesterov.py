"""Gradient descent with Nesterov's momentum (1983)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.core.sections import Fraction
from undertow.training.directions.direction import Direction, Memory, buffers, move

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Nesterov"]


class Nesterov(Direction):
    """v ← μ v + ∇L(w − ημ v), w ← w − η v, followed at u = w − ημ v, where the gradient is taken.

    There it reads v ← μ v + ∇L(u), u ← u − η (∇L(u) + μ v), as ``torch.optim.SGD(nesterov=True)`` has it, and takes one
    gradient a step.

    >>> Nesterov(momentum=0.5)
    Nesterov(name='nesterov', momentum=0.5)
    """

    name: Literal["nesterov"] = "nesterov"
    momentum: Fraction = 0.9

    def start(self, weights: Mapping[str, Tensor]) -> Memory:
        return buffers("momentum", weights)

    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        memory: Memory,
        rates: Tensor,
    ) -> None:
        for name, gradient in gradients.items():
            velocity = memory[f"momentum.{name}"].mul_(self.momentum).add_(gradient)
            move(weights[name], gradient.add(velocity, alpha=self.momentum), rates)
