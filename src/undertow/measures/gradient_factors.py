"""Gradients of many margins by one layer's parameters as two factors, and the Gram matrix of all of them.

For a layer z = W h + b the gradient of one margin is an outer product δ hᵀ, with δ the margin's slope at z. So the
Gram matrix of n gradients is (ΔΔᵀ) ∘ (HHᵀ) from Δ (n, out) and H (n, in), and no gradient of in·out numbers is formed.
A convolution is the same summed over positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from undertow.core.scoring import slices

__all__ = ["GradientFactor", "factor_of_layer", "gram_of", "join"]

_BLOCK = 2**24  # numbers of an intermediate product


@dataclass(frozen=True)
class GradientFactor:
    """Gradients of n margins by one layer's parameters: Σ_t δ_t h_tᵀ with δ (n, T, a), h (n, T, b)."""

    slopes: Tensor
    inputs: Tensor

    def part(self, rows: Tensor) -> GradientFactor:
        """Those of these margins."""
        return GradientFactor(self.slopes[rows], self.inputs[rows])


def gram_of(first: Mapping[str, GradientFactor], second: Mapping[str, GradientFactor]) -> Tensor:
    """⟨∇q_c, ∇q_c'⟩ for the constraints c of the first and c' of the second, (n, m)."""
    parts = [_gram(factor, second[name]) for name, factor in first.items()]
    return sum(parts[1:], parts[0])


def join(
    first: Mapping[str, GradientFactor], second: Mapping[str, GradientFactor]
) -> dict[str, GradientFactor]:
    """The constraints of both, one after the other."""
    return {
        name: GradientFactor(
            torch.cat([first[name].slopes, second[name].slopes]),
            torch.cat([first[name].inputs, second[name].inputs]),
        )
        for name in first
    }


def _gram(first: GradientFactor, second: GradientFactor) -> Tensor:
    count, positions, _ = first.slopes.shape
    others = len(second.slopes)
    if positions == 1:
        slopes = first.slopes[:, 0] @ second.slopes[:, 0].T
        return slopes.mul_(first.inputs[:, 0] @ second.inputs[:, 0].T)
    found = first.slopes.new_empty(count, others)
    for part in slices(count, max(1, _BLOCK // (others * positions**2))):
        both = first.slopes[part].flatten(0, 1) @ second.slopes.flatten(0, 1).T
        both.mul_(first.inputs[part].flatten(0, 1) @ second.inputs.flatten(0, 1).T)
        found[part] = both.view(-1, positions, others, positions).sum((1, 3))
    return found


def factor_of_layer(
    module: nn.Module, inputs: Tensor, delta: Tensor, parts: tuple[bool, bool]
) -> GradientFactor:
    """Σ_t δ_t h_tᵀ of a layer, multiplied out where that is the smaller way to hold it."""
    if isinstance(module, nn.Conv2d):
        padding = module.padding
        if isinstance(padding, str):
            inputs, padding = functional.pad(inputs, module._reversed_padding_repeated_twice), (0, 0)
        patches = functional.unfold(inputs, module.kernel_size, module.dilation, padding, module.stride)
        h, d = patches.transpose(1, 2), delta.flatten(2).transpose(1, 2)
    else:
        h, d = (
            inputs.reshape(len(inputs), -1, inputs.shape[-1]),
            delta.reshape(len(delta), -1, delta.shape[-1]),
        )
    weight, bias = parts
    ones = torch.ones_like(h[..., :1])
    h = torch.cat([h, ones], dim=2) if weight and bias else h if weight else ones
    positions, a, b = h.shape[1], d.shape[2], h.shape[2]
    if positions > 1 and a * b <= positions * (a + b) + positions**2:
        dense = torch.einsum("nta,ntb->nab", d, h).flatten(1)[:, None, :]
        return GradientFactor(dense, torch.ones_like(dense[..., :1]))
    return GradientFactor(d.contiguous(), h.contiguous())
