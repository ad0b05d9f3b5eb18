"""Adam (Kingma & Ba 2015): steps of about the same length in every coordinate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.core.sections import Fraction, NonNegative, Switch
from undertow.training.directions.direction import Direction, Memory, move, per_member

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Adam"]


class Adam(Direction):
    """m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g², w ← w − η m̂/(√v̂ + ε), hats for bias correction.

    Algorithm 1 of the paper; without ``bias_correction`` m̂ = m and v̂ = v. With ε = 0 a weight whose gradient has always
    been 0 stays where it is. The step count is a tensor (M,), so that a step has no number from the host in it and can
    be captured as a CUDA graph. Where gradients are in a unit of their own (``training/loss_units.py``), ε is too.

    >>> Adam().epsilon, Adam(beta2=0.99).beta2
    (1e-08, 0.99)
    """

    name: Literal["adam"] = "adam"
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    epsilon: NonNegative = 1e-8
    bias_correction: Switch = True

    @property
    def forgetting(self) -> float | None:
        return max(self.beta1, math.sqrt(self.beta2))

    def start(self, weights: Mapping[str, Tensor]) -> Memory:
        memory: Memory = {}
        for name, weight in weights.items():
            memory[f"first.{name}"] = weight.new_zeros(weight.shape)
            memory[f"second.{name}"] = weight.new_zeros(weight.shape)
            if "steps" not in memory:
                memory["steps"] = weight.new_zeros(weight.shape[0]).double()
        return memory

    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        memory: Memory,
        rates: Tensor,
    ) -> None:
        if not gradients:
            return
        steps = memory["steps"].add_(1)
        if self._has_one_kernel(gradients, memory):
            self._step_in_one(weights, gradients, memory, rates)
            return
        size, root = rates, rates.new_ones(rates.shape)
        if self.bias_correction:  # of the rate, which is (M,), and not of all the numbers in m
            size = (rates / (1 - self.beta1**steps)).to(rates)
            root = (1 - self.beta2**steps).sqrt().to(rates)
        for name, gradient in gradients.items():
            first, second = memory[f"first.{name}"], memory[f"second.{name}"]
            first.lerp_(gradient, 1 - self.beta1)
            second.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
            scale = second.sqrt().div_(per_member(root, gradient)).add_(self._epsilon(memory, gradient))
            direction = first / scale
            if not self.epsilon:
                direction = direction.where(scale > 0, 0.0)
            move(weights[name], direction, size)

    def _has_one_kernel(self, gradients: Mapping[str, Tensor], memory: Memory) -> bool:
        """Whether PyTorch's kernel for all parameters of a network at once does it: for float32 on a GPU.

        Of ResNet-50's 161 parameters one by one, launching eleven operations each takes a fifth of a training step.
        """
        any_of_them = next(iter(gradients.values()))
        plain = self.bias_correction and self.epsilon > 0 and "log_unit" not in memory
        single = any_of_them.is_cuda and any_of_them.element_size() == 4
        return plain and single and len(gradients) > len(any_of_them)

    def _step_in_one(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        memory: Memory,
        rates: Tensor,
    ) -> None:
        import torch

        counts = memory["steps"].float()
        for member in range(len(rates)):
            torch._fused_adam_(
                [weights[name][member] for name in gradients],
                [gradient[member] for gradient in gradients.values()],
                [memory[f"first.{name}"][member] for name in gradients],
                [memory[f"second.{name}"][member] for name in gradients],
                [],
                [counts[member]] * len(gradients),
                lr=rates[member],
                beta1=self.beta1,
                beta2=self.beta2,
                weight_decay=0.0,
                eps=self.epsilon,
                amsgrad=False,
                maximize=False,
            )

    def _epsilon(self, memory: Memory, gradient: Tensor) -> Tensor | float:
        """ε in the unit of the gradients."""
        if "log_unit" not in memory or not self.epsilon:
            return self.epsilon
        return per_member((math.log(self.epsilon) - memory["log_unit"]).exp().to(gradient), gradient)
