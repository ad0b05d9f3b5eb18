"""Gradient descent and Adam on stacked parameters, each member with its own learning rate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor

from undertow.training.recipe import Recipe

__all__ = ["Adam", "GradientDescent", "StackedOptimizer", "make_optimizer", "per_member"]


class StackedOptimizer(ABC):
    """Changes weights (M, …) in place. ``moments`` is all it remembers, by name, each with a member axis."""

    def __init__(self) -> None:
        self.moments: dict[str, Tensor] = {}

    @property
    def plain(self) -> bool:
        """Whether a step is w ← w - η ∇L and nothing else, which can be added to the weights directly."""
        return False

    @abstractmethod
    def apply(self, weights: Mapping[str, Tensor], gradients: Mapping[str, Tensor], rates: Tensor) -> None:
        """One step with learning rates (M,); a member with rate 0 stays where it is."""


class GradientDescent(StackedOptimizer):
    """b ← μ b + ∇L, w ← w - η b (heavy ball, as ``torch.optim.SGD``); μ = 0 is plain gradient descent."""

    def __init__(self, weights: Mapping[str, Tensor], *, momentum: float = 0.0) -> None:
        super().__init__()
        self._momentum = momentum
        if momentum:
            self.moments = {f"momentum.{name}": torch.zeros_like(weight) for name, weight in weights.items()}

    @property
    def plain(self) -> bool:
        return not self._momentum

    def apply(self, weights: Mapping[str, Tensor], gradients: Mapping[str, Tensor], rates: Tensor) -> None:
        for name, gradient in gradients.items():
            direction = gradient
            if self._momentum:
                direction = self.moments[f"momentum.{name}"].mul_(self._momentum).add_(gradient)
            weights[name].addcmul_(direction, per_member(rates, gradient), value=-1)


class Adam(StackedOptimizer):
    """m ← β₁m + (1-β₁)g, v ← β₂v + (1-β₂)g², w ← w - η m̂/(√v̂ + ε), hats for bias correction.

    Kingma & Ba (2015), Algorithm 1, with β = (0.9, 0.999) and ε = 1e-8. The step count is a tensor (M,), so
    that a step has no number from the host in it and can be captured as a CUDA graph.
    """

    beta1, beta2, epsilon = 0.9, 0.999, 1e-8

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, weight in weights.items():
            self.moments[f"first.{name}"] = torch.zeros_like(weight)
            self.moments[f"second.{name}"] = torch.zeros_like(weight)
        some = next(iter(weights.values()))
        self.moments["steps"] = torch.zeros(some.shape[0], dtype=torch.float64, device=some.device)

    def apply(self, weights: Mapping[str, Tensor], gradients: Mapping[str, Tensor], rates: Tensor) -> None:
        steps = self.moments["steps"].add_(1)
        size = (rates / (1 - self.beta1**steps)).to(rates)
        root = (1 - self.beta2**steps).sqrt().to(rates)
        for name, gradient in gradients.items():
            first, second = self.moments[f"first.{name}"], self.moments[f"second.{name}"]
            first.lerp_(gradient, 1 - self.beta1)
            second.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
            scale = second.sqrt().div_(per_member(root, gradient)).add_(self.epsilon)
            weights[name].addcmul_(first / scale, per_member(size, gradient), value=-1)


def make_optimizer(recipe: Recipe, weights: Mapping[str, Tensor]) -> StackedOptimizer:
    """The optimiser a recipe names, for the parameters that are trained."""
    if recipe.optimizer == "adam" and weights:
        return Adam(weights)
    return GradientDescent(weights, momentum=recipe.momentum)


def per_member(values: Tensor, like: Tensor) -> Tensor:
    """Values (M,) in a shape (M, 1, …) that multiplies ``like``."""
    return values.view(-1, *[1] * (like.dim() - 1))
