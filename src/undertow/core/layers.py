"""The kinds of layers that are known, and which of them a module is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from undertow.core.activations import LINEAR, Activation, activation_of

__all__ = [
    "ActivationLayer",
    "BatchNormLayer",
    "ConvolutionLayer",
    "DropoutLayer",
    "FlattenLayer",
    "Layer",
    "LinearLayer",
    "OtherLayer",
    "PoolingLayer",
    "layer_of",
]


@dataclass(frozen=True, eq=False)
class Layer:
    """One step of a network: the module that computes it, and its name there ("" where it is the whole network)."""

    name: str
    module: nn.Module

    def __str__(self) -> str:
        return f"{self.name!r} ({type(self.module).__name__})" if self.name else type(self.module).__name__


@dataclass(frozen=True, eq=False)
class LinearLayer(Layer):
    """W x + b."""

    module: nn.Linear


@dataclass(frozen=True, eq=False)
class ConvolutionLayer(Layer):
    """A convolution over one, two or three axes."""

    module: nn.Conv1d | nn.Conv2d | nn.Conv3d


@dataclass(frozen=True, eq=False)
class BatchNormLayer(Layer):
    """Batch normalisation: in eval mode an affine map of each channel, where it has running statistics."""

    module: nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d

    @property
    def has_statistics(self) -> bool:
        """Without running statistics it mixes the samples of a batch, in eval mode too."""
        return self.module.running_mean is not None and self.module.running_var is not None


@dataclass(frozen=True, eq=False)
class PoolingLayer(Layer):
    """Pooling; ``linear`` where it takes means, not maxima."""

    linear: bool


@dataclass(frozen=True, eq=False)
class FlattenLayer(Layer):
    """A change of shape."""

    module: nn.Flatten

    @property
    def whole_samples(self) -> bool:
        """Whether samples (N, …) become vectors (N, d)."""
        return (self.module.start_dim, self.module.end_dim) == (1, -1)

    @property
    def joins_samples(self) -> bool:
        """Whether it takes the axis of the samples away."""
        return self.module.start_dim == 0


@dataclass(frozen=True, eq=False)
class DropoutLayer(Layer):
    """Dropout: random in train mode, the identity in eval mode."""


@dataclass(frozen=True, eq=False)
class ActivationLayer(Layer):
    """A function of every coordinate alone.

    ``activation`` is None for a module of one's own that says of itself ``elementwise = True``: it may have parameters,
    and its derivative is known to autograd alone.
    """

    activation: Activation | None

    @property
    def is_identity(self) -> bool:
        """Whether it does nothing."""
        return self.activation is LINEAR

    @property
    def activation_name(self) -> str:
        """As configuration files write it; the class of a module that is not in the table."""
        return type(self.module).__name__ if self.activation is None else self.activation.name


@dataclass(frozen=True, eq=False)
class OtherLayer(Layer):
    """A module of no known kind: it can be called, and no more is known of it."""


def layer_of(name: str, module: nn.Module) -> Layer:
    """The layer that a module is, by its exact type.

    >>> layer_of("pool", nn.MaxPool2d(2)).linear, type(layer_of("", nn.LayerNorm(3))).__name__
    (False, 'OtherLayer')
    """
    activation = activation_of(module)
    if activation is not None or getattr(module, "elementwise", False):
        return ActivationLayer(name, module, activation)
    return _KINDS.get(type(module), OtherLayer)(name, module)


def _mean_pooling(name: str, module: nn.Module) -> Layer:
    return PoolingLayer(name, module, linear=True)


def _max_pooling(name: str, module: nn.Module) -> Layer:
    return PoolingLayer(name, module, linear=False)


_KINDS: dict[type[nn.Module], Callable[[str, Any], Layer]] = {
    nn.Flatten: FlattenLayer,
    nn.Linear: LinearLayer,
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), ConvolutionLayer),
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), BatchNormLayer),
    **dict.fromkeys(
        (
            nn.Dropout,
            nn.Dropout1d,
            nn.Dropout2d,
            nn.Dropout3d,
            nn.AlphaDropout,
            nn.FeatureAlphaDropout,
        ),
        DropoutLayer,
    ),
    **dict.fromkeys(
        (
            nn.AvgPool1d,
            nn.AvgPool2d,
            nn.AvgPool3d,
            nn.AdaptiveAvgPool1d,
            nn.AdaptiveAvgPool2d,
            nn.AdaptiveAvgPool3d,
        ),
        _mean_pooling,
    ),
    **dict.fromkeys(
        (
            nn.MaxPool1d,
            nn.MaxPool2d,
            nn.MaxPool3d,
            nn.AdaptiveMaxPool1d,
            nn.AdaptiveMaxPool2d,
            nn.AdaptiveMaxPool3d,
        ),
        _max_pooling,
    ),
}
