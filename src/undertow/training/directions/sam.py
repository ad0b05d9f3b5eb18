"""Sharpness-aware minimisation (Foret et al. 2021): the gradient where the loss is worst nearby."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.core.sections import Fraction, NonNegative, Positive
from undertow.training.directions.direction import Direction, Memory, euclidean_length, per_member
from undertow.training.directions.heavy_ball import HeavyBall

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Sam"]


class Sam(Direction):
    """w ← w − η ∇L(w + ρ ∇L/‖∇L‖₂), the norm over all parameters of a network; ``radius`` is ρ.

    The ascent and the gradient there are of the same batch. ``momentum`` and ``weight_decay`` are those of the
    descent, as in :class:`HeavyBall`. Steps take two gradients, and so about twice the time.

    >>> import torch
    >>> Sam(radius=0.5).ahead({"w": torch.tensor([[3.0, 4.0]])})
    {'w': tensor([[0.3000, 0.4000]])}
    """

    name: Literal["sam"] = "sam"
    radius: Positive = 0.05
    momentum: Fraction = 0.0
    weight_decay: NonNegative = 0.0

    @property
    def _descent(self) -> HeavyBall:
        return HeavyBall(momentum=self.momentum, weight_decay=self.weight_decay)

    def start(self, weights: Mapping[str, Tensor]) -> Memory:
        return self._descent.start(weights)

    def ahead(self, gradients: Mapping[str, Tensor]) -> Memory | None:
        if not gradients:
            return None
        # The authors' 1e-12, which leaves a network alone whose gradient is zero.
        scale = self.radius / (euclidean_length(gradients.values()) + 1e-12)
        return {name: gradient * per_member(scale, gradient) for name, gradient in gradients.items()}

    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        memory: Memory,
        rates: Tensor,
    ) -> None:
        self._descent.step(weights, gradients, memory, rates)
