"""Gradient descent: steepest descent in the Euclidean norm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.training.directions.memoryless import Memoryless

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["GradientDescent"]


class GradientDescent(Memoryless):
    """w ← w − η ∇L. ``gd`` takes the whole data set in every step, ``sgd`` takes batches."""

    name: Literal["gd", "sgd"] = "sgd"

    @property
    def plain(self) -> bool:
        return True

    def along(self, gradients: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return gradients
