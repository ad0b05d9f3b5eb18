"""Sign descent: steepest descent in the L∞ norm (Bernstein et al. 2018), and Signum, the same with momentum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.core.sections import Fraction, NonNegative
from undertow.training.directions.direction import Direction, Memory, buffers, move

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SignDescent"]


class SignDescent(Direction):
    """m ← βm + (1−β)g, w ← w − η (sign m + λ w): every coordinate moves by η, up or down, or stays where m is 0.

    ``sign-descent`` with ``momentum`` β = 0 is sign descent, whose margin is said to grow in ‖w‖_∞; with β > 0 it
    is Signum. ``weight_decay`` is λ, decoupled from the gradient as in AdamW.

    >>> import torch
    >>> weight = {"w": torch.zeros(1, 3)}
    >>> SignDescent().step(weight, {"w": torch.tensor([[2.0, -1e-9, 0.0]])}, {}, torch.tensor([0.5]))
    >>> weight["w"].tolist()
    [[-0.5, 0.5, 0.0]]
    """

    name: Literal["sign-descent"] = "sign-descent"
    momentum: Fraction = 0.0
    weight_decay: NonNegative = 0.0

    @property
    def forgetting(self) -> float | None:
        return self.momentum

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
            followed = gradient
            if self.momentum:
                followed = memory[f"momentum.{name}"].lerp_(gradient, 1 - self.momentum)
            signs = followed.sign().where(~followed.isnan(), followed)  # torch calls the sign of NaN 0
            move(weights[name], signs.add_(weights[name], alpha=self.weight_decay), rates)
