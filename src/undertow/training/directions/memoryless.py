"""Directions that a gradient tells by itself, without a memory of earlier ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from undertow.training.directions.direction import Direction, Memory, move

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Memoryless"]


class Memoryless(Direction):
    """w ← w − η u(g) with the gradient g of this moment."""

    @abstractmethod
    def along(self, gradients: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """u for every parameter, from the gradients of all (at least one)."""

    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        memory: Memory,  # noqa: ARG002
        rates: Tensor,
    ) -> None:
        if not gradients:
            return
        for name, direction in self.along(gradients).items():
            move(weights[name], direction, rates)
