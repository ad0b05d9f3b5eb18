"""Adam with weight decay beside it (Loshchilov & Hutter 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.core.sections import Fraction, NonNegative
from undertow.training.directions.adam import Adam
from undertow.training.directions.direction import Direction, Memory, per_member

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["AdamW"]


class AdamW(Direction):
    """w ← (1 − ηλ) w − η u, with Adam's u: the decay λ is no part of the gradient that Adam rescales.

    >>> AdamW(weight_decay=2.0).weight_decay
    2.0
    """

    name: Literal["adamw"] = "adamw"
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    epsilon: NonNegative = 1e-8
    weight_decay: NonNegative = 0.01

    @property
    def forgetting(self) -> float | None:
        return self._adam.forgetting

    @property
    def _adam(self) -> Adam:
        return Adam(beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon)

    def start(self, weights: Mapping[str, Tensor]) -> Memory:
        return self._adam.start(weights)

    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        memory: Memory,
        rates: Tensor,
    ) -> None:
        for name, gradient in gradients.items():
            weights[name].mul_(1 - per_member(rates * self.weight_decay, gradient))
        self._adam.step(weights, gradients, memory, rates)
