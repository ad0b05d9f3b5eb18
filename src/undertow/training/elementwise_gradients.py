"""Elementwise activations with their derivatives, for gradients written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from undertow.core.activations import Activation

__all__ = ["ElementwiseActivation", "elementwise_gradient"]


@dataclass(frozen=True)
class ElementwiseActivation:
    """σ and its derivative.

    ``apply`` returns (σ(z), what the derivative needs); ``pull`` turns the gradient with respect to σ(z) into
    the one with respect to z. Both may overwrite their first argument.
    """

    apply: Callable[[Tensor], tuple[Tensor, Tensor]]
    pull: Callable[[Tensor, Tensor], Tensor]


def elementwise_gradient(activation: Activation) -> ElementwiseActivation:
    """An activation in the form that gradients written by hand want.

    The usual ones work in place, with PyTorch's own kernels; the others keep z and use the slope of the table.

    >>> from undertow.core.activations import activation_of
    >>> sigma = elementwise_gradient(activation_of(nn.LeakyReLU(0.25)))
    >>> value, kept = sigma.apply(torch.tensor([-4.0, 2.0]))
    >>> value, sigma.pull(torch.ones(2), kept)
    (tensor([-1.,  2.]), tensor([0.2500, 1.0000]))
    """
    low, high = activation.slope_range
    if activation.name == "relu":
        return ElementwiseActivation(_twice(torch.relu_), _relu_pull)
    if activation.name == "leaky-relu" and 0 < low < high:  # its sign can be read off its value
        return _leaky_relu(low if high == 1 else high)
    if activation.name == "tanh":
        return ElementwiseActivation(_twice(torch.tanh_), _tanh_pull)
    if activation.name in ("gelu", "gelu-tanh"):
        return _gelu("none" if activation.name == "gelu" else "tanh")
    return ElementwiseActivation(
        lambda z: (activation.value(z), z), lambda gradient, z: gradient.mul_(activation.slope(z))
    )


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
