"""Normalised gradient descent: steps of length η in the Euclidean norm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.training.directions.direction import divided, euclidean_length, largest_entry
from undertow.training.directions.memoryless import Memoryless

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["NormalisedDescent"]


class NormalisedDescent(Memoryless):
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

    def along(self, gradients: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        largest = largest_entry(gradients)
        unit = {name: divided(gradient, largest) for name, gradient in gradients.items()}
        length = euclidean_length(unit.values())
        return {name: divided(each, length) for name, each in unit.items()}
