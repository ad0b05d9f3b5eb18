"""What a direction is: the way an optimiser goes from a gradient, whatever the length of the step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from undertow.core.sections import Section

if TYPE_CHECKING:  # a direction's settings are read by configurations, which need no torch
    from torch import Tensor

__all__ = [
    "Direction",
    "Memory",
    "buffers",
    "divided",
    "euclidean_length",
    "largest_entry",
    "move",
    "per_member",
]

Memory = dict[str, "Tensor"]


class Direction(Section, ABC):
    """An optimiser's geometry, with its settings: w ← w − η u, where u comes from gradients and memory.

    Every tensor has a leading member axis, one entry for each network that trains in the batch. A step must
    ask nothing of the host, so that a GPU can replay it, and changes its memory in place. It must be finite
    where a gradient is zero: networks that wait or have diverged have zero gradients and rate 0.
    """

    name: str

    @property
    def plain(self) -> bool:
        """Whether a step is w ← w − η ∇L and nothing else, which can be added to the weights directly."""
        return False

    @property
    def varies(self) -> bool:
        """Whether it stretches rates."""
        return type(self).stretch is not Direction.stretch

    @property
    def forgetting(self) -> float | None:
        """What a step leaves of its memory of earlier gradients: the largest factor, for squares its root.

        0 where nothing is remembered. None where the unit of gradients matters: steps are then as long as they are.
        """
        return None

    def start(self, weights: Mapping[str, Tensor]) -> Memory:  # noqa: ARG002
        """All that it remembers, by name, before the first step."""
        return {}

    def ahead(self, gradients: Mapping[str, Tensor]) -> Memory | None:  # noqa: ARG002
        """Where to take the gradient instead, as a displacement of the weights; None to be content with this one."""
        return None

    def stretch(
        self,
        weights: Mapping[str, Tensor],  # noqa: ARG002
        gradients: Mapping[str, Tensor],  # noqa: ARG002
        rates: Tensor,  # noqa: ARG002
    ) -> Tensor | None:
        """What the rates (M,) of this step are multiplied by, (M,); None for 1."""
        return None

    @abstractmethod
    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        memory: Memory,
        rates: Tensor,
    ) -> None:
        """One step in place, with rates η (M,); a member with rate 0 stays where it is."""


def buffers(kind: str, weights: Mapping[str, Tensor]) -> Memory:
    """Zeros in the shape of every weight, named ``kind.name``."""
    return {f"{kind}.{name}": weight.new_zeros(weight.shape) for name, weight in weights.items()}


def move(weight: Tensor, direction: Tensor, rates: Tensor) -> None:
    """w ← w − η u for one parameter (M, …), each member with its own rate.

    >>> import torch
    >>> weight = torch.zeros(2, 1)
    >>> move(weight, torch.ones(2, 1), torch.tensor([0.5, 0.25]))
    >>> weight.flatten().tolist()
    [-0.5, -0.25]
    """
    weight.addcmul_(direction, per_member(rates, direction), value=-1)


def per_member(values: Tensor, like: Tensor) -> Tensor:
    """Values (M,) in a shape (M, 1, …) that multiplies ``like``."""
    return values.view(-1, *[1] * (like.dim() - 1))


def largest_entry(gradients: Mapping[str, Tensor]) -> Tensor:
    """max |g_i| over all parameters of each network, (M,)."""
    largest, *others = [gradient.flatten(1).abs().amax(1) for gradient in gradients.values()]
    for each in others:
        largest = largest.maximum(each)
    return largest


def euclidean_length(tensors: Iterable[Tensor]) -> Tensor:
    """‖·‖₂ over all tensors (at least one) of each network, (M,)."""
    first, *others = [tensor.flatten(1).square().sum(1) for tensor in tensors]
    return sum(others, first).sqrt()


def divided(value: Tensor, by: Tensor) -> Tensor:
    """value/by for each network; 0 where the divisor is 0."""
    return value / per_member(by.where(by != 0, by.new_ones(())), value)
