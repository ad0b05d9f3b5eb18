"""Normalised gradient descent: steps of length η in the Euclidean norm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.training.directions.direction import Direction, Memory, divided, largest_entry, move

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["NormalisedDescent"]


class NormalisedDescent(Direction):
    """w ← w − η g/‖g‖₂, the norm over all parameters of a network: gradient descent with steps of length η.

    >>> import torch
    >>> weight = {"w": torch.zeros(1, 2)}
    >>> NormalisedDescent().step(weight, {"w": torch.tensor([[3e-30, 4e-30]])}, {}, torch.tensor([1.0]))
    >>> weight["w"].tolist()
    [[-0.6000000238418579, -0.800000011920929]]
    """

    name: Literal["normalised-gd"] = "normalised-gd"

    @property
    def forgetting(self) -> float | None:
        return 0.0

    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        memory: Memory,  # noqa: ARG002
        rates: Tensor,
    ) -> None:
        if not gradients:
            return
        largest = largest_entry(gradients)
        unit = {name: divided(gradient, largest) for name, gradient in gradients.items()}
        squares = [each.flatten(1).square().sum(1) for each in unit.values()]
        length = sum(squares[1:], squares[0]).sqrt()
        for name, each in unit.items():
            move(weights[name], divided(each, length), rates)
