"""Gradient descent: steepest descent in the Euclidean norm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.training.directions.direction import Direction, Memory, move

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["GradientDescent"]


class GradientDescent(Direction):
    """w ← w − η ∇L. ``gd`` takes the whole data set in every step, ``sgd`` takes batches."""

    name: Literal["gd", "sgd"] = "sgd"

    @property
    def plain(self) -> bool:
        return True

    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        memory: Memory,  # noqa: ARG002
        rates: Tensor,
    ) -> None:
        for name, gradient in gradients.items():
            move(weights[name], gradient, rates)
