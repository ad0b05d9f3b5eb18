"""Muon (Jordan et al. 2024): momentum, made nearly orthogonal by five Newton–Schulz steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.core.polar_factor import polar_factor
from undertow.core.sections import Count, Fraction, NonNegative, Positive, Switch
from undertow.training.directions.adam import Adam
from undertow.training.directions.direction import Direction, Memory, buffers, divided, move

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Muon", "newton_schulz"]

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # steep at 0, at the price of singular values between 0.7 and 1.2


class Muon(Direction):
    """b ← μb + g, W ← W − η (√max(1, p/q) NS(g + μb) + λW) for matrices p × q; everything else by Adam.

    NS is :func:`newton_schulz` with ``steps`` steps; without ``nesterov`` it is applied to b. What is no matrix has
    no spectral norm to descend in: biases go by Adam, with ``adam_rate`` times the rate. ``weight_decay`` is λ. With
    ``exact`` NS is the polar factor itself, which Newton–Schulz steps are a quick stand-in for.

    >>> sorted(Muon().start({"w": __import__("torch").zeros(1, 2, 3), "b": __import__("torch").zeros(1, 2)}))
    ['first.b', 'momentum.w', 'second.b', 'steps']
    """

    name: Literal["muon"] = "muon"
    momentum: Fraction = 0.95
    nesterov: Switch = True
    steps: Count = 5
    weight_decay: NonNegative = 0.0
    adam_rate: Positive = 1.0
    exact: Switch = False

    @property
    def forgetting(self) -> float | None:
        return max(self.momentum, math.sqrt(Adam().beta2))

    def start(self, weights: Mapping[str, Tensor]) -> Memory:
        matrices, others = _sorted(weights)
        return {**buffers("momentum", matrices), **Adam().start(others)}

    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        memory: Memory,
        rates: Tensor,
    ) -> None:
        matrices, others = _sorted(gradients)
        Adam().step(weights, others, memory, rates * self.adam_rate)
        for name, gradient in matrices.items():
            buffer = memory[f"momentum.{name}"].mul_(self.momentum).add_(gradient)
            followed = gradient.add(buffer, alpha=self.momentum) if self.nesterov else buffer
            matrix = followed.flatten(2)
            scale = max(1.0, matrix.shape[-2] / matrix.shape[-1]) ** 0.5
            factor = polar_factor(matrix) if self.exact else newton_schulz(matrix, steps=self.steps)
            direction = factor.view_as(gradient) * scale
            move(weights[name], direction.add_(weights[name], alpha=self.weight_decay), rates)


def newton_schulz(matrix: Tensor, *, steps: int) -> Tensor:
    """Matrices (M, p, q) with all singular values brought near 1: X ← aX + (bXXᵀ + c(XXᵀ)²)X from G/‖G‖_F.

    The authors' coefficients; in the weights' own precision, where they use bfloat16.

    >>> import torch
    >>> torch.linalg.svdvals(newton_schulz(torch.diag(torch.tensor([5.0, 1.0]))[None], steps=5))
    tensor([[0.7967, 0.7222]])
    """
    a, b, c = _COEFFICIENTS
    tall = matrix.shape[-2] > matrix.shape[-1]
    wide = matrix.mT if tall else matrix
    wide = divided(wide, wide.flatten(1).abs().amax(1))  # first: squares of small entries would vanish
    factor = divided(wide, wide.flatten(1).norm(dim=1))
    for _ in range(steps):
        gram = factor @ factor.mT
        factor = a * factor + (b * gram + c * gram @ gram) @ factor
    return factor.mT if tall else factor


def _sorted(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Matrices, with their member axis, and the rest."""
    matrices = {name: value for name, value in tensors.items() if value.dim() > 2}
    return matrices, {name: value for name, value in tensors.items() if name not in matrices}
