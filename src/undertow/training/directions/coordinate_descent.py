"""Greedy coordinate descent: steps of length η in the L1 norm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.training.directions.direction import divided, largest_entry, per_member
from undertow.training.directions.memoryless import Memoryless

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CoordinateDescent"]


class CoordinateDescent(Memoryless):
    """w_i ← w_i − η sign(g_i) for the i with the largest |g_i| of all parameters, or for all i that share it.

    Greedy coordinate descent is steepest descent in the L1 norm, whose margin is said to grow in ‖w‖₁. Where several
    coordinates are equally steep, each takes its share of η, so that steps have length η in L1.

    >>> import torch
    >>> weight = {"w": torch.zeros(1, 2), "b": torch.zeros(1, 1)}
    >>> gradient = {"w": torch.tensor([[1.0, -2.0]]), "b": torch.tensor([[2.0]])}
    >>> CoordinateDescent().step(weight, gradient, {}, torch.tensor([1.0]))
    >>> weight["w"].tolist(), weight["b"].tolist()
    ([[0.0, 0.5]], [[-0.5]])
    """

    name: Literal["coordinate-descent"] = "coordinate-descent"

    @property
    def forgetting(self) -> float | None:
        return 0.0

    def along(self, gradients: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        largest = largest_entry(gradients)
        steepest = {
            name: gradient.sign() * (gradient.abs() >= per_member(largest, gradient))
            for name, gradient in gradients.items()
        }
        counts = [each.flatten(1).abs().sum(1) for each in steepest.values()]
        share = sum(counts[1:], counts[0])
        share = share.where(~largest.isnan(), largest)  # where no entry is the largest, the weights say so
        return {name: divided(each, share) for name, each in steepest.items()}
