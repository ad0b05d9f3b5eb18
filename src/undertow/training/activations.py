"""Elementwise activations with their derivatives, for gradients written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["ElementwiseActivation", "elementwise"]


@dataclass(frozen=True)
class ElementwiseActivation:
    """σ and its derivative.

    ``apply`` returns (σ(z), what the derivative needs); ``pull`` turns the gradient with respect to σ(z) into
    the one with respect to z. Both may overwrite their first argument.
    """

    apply: Callable[[Tensor], tuple[Tensor, Tensor]]
    pull: Callable[[Tensor, Tensor], Tensor]


def elementwise(module: nn.Module) -> ElementwiseActivation | None:
    """The activation that ``module`` is, or None where autograd has to differentiate it.

    >>> sigma = elementwise(nn.LeakyReLU(0.25))
    >>> value, kept = sigma.apply(torch.tensor([-4.0, 2.0]))
    >>> value, sigma.pull(torch.ones(2), kept)
    (tensor([-1.,  2.]), tensor([0.2500, 1.0000]))
    """
    if type(module) is nn.Identity:
        return ElementwiseActivation(lambda z: (z, z), lambda gradient, _: gradient)
    if type(module) is nn.ReLU:
        return ElementwiseActivation(_twice(torch.relu_), _relu_pull)
    if type(module) is nn.LeakyReLU and module.negative_slope > 0:  # its sign can be read off its value
        return _leaky_relu(module.negative_slope)
    if type(module) is nn.Tanh:
        return ElementwiseActivation(_twice(torch.tanh_), _tanh_pull)
    if type(module) is nn.GELU:
        return _gelu(module.approximate)
    return None


def _twice(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    def apply(z: Tensor) -> tuple[Tensor, Tensor]:
        value = function(z)
        return value, value

    return apply


def _relu_pull(gradient: Tensor, value: Tensor) -> Tensor:
    torch.ops.aten.threshold_backward.grad_input(gradient, value, 0, grad_input=gradient)
    return gradient


def _tanh_pull(gradient: Tensor, value: Tensor) -> Tensor:
    return gradient.mul_(1 - value * value)


def _leaky_relu(slope: float) -> ElementwiseActivation:
    def apply(z: Tensor) -> tuple[Tensor, Tensor]:
        value = nn.functional.leaky_relu_(z, slope)
        return value, value

    def pull(gradient: Tensor, value: Tensor) -> Tensor:
        torch.ops.aten.leaky_relu_backward.grad_input(gradient, value, slope, True, grad_input=gradient)
        return gradient

    return ElementwiseActivation(apply, pull)


def _gelu(approximate: str) -> ElementwiseActivation:
    def apply(z: Tensor) -> tuple[Tensor, Tensor]:
        return nn.functional.gelu(z, approximate=approximate), z

    def pull(gradient: Tensor, z: Tensor) -> Tensor:
        return torch.ops.aten.gelu_backward(gradient, z, approximate=approximate)  # type: ignore[no-any-return]

    return ElementwiseActivation(apply, pull)
