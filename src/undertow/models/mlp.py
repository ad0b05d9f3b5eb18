"""Fully connected networks of any depth."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from undertow.core.errors import ConfigError
from undertow.core.losses import Loss
from undertow.core.sections import Count, Switch, WithLaterOptions
from undertow.models.initialisation import He, HeInit, Initialisation, InitSection, draw_linear
from undertow.models.model_section import ActivationName, ReadOutModel
from undertow.models.polynomial_relu import activation as make_activation

if TYPE_CHECKING:
    from undertow.data.dataset import Dataset

__all__ = ["MlpModel", "mlp"]


class MlpModel(WithLaterOptions, ReadOutModel):
    """A fully connected network of any depth; see :func:`mlp`."""

    LATER = ("bias",)

    name: Literal["mlp"]
    widths: tuple[Count, ...]
    activation: ActivationName = "relu"
    init: InitSection = HeInit()
    bias: Switch = False

    def build(
        self, dataset: Dataset, *, loss: Loss, dtype: torch.dtype, generator: torch.Generator
    ) -> nn.Module:
        return mlp(
            inputs=dataset.x[0].numel(),
            widths=self.widths,
            outputs=self.outputs_for(dataset, loss),
            activation=self.activation,
            init=self.init.build(),
            bias=self.bias,
            dtype=dtype,
            generator=generator,
        )

    def least_weights(self, inputs: int) -> int:
        sizes = (inputs, *self.widths, self.outputs or 1)
        return sum(a * b for a, b in itertools.pairwise(sizes))


def mlp(
    *,
    inputs: int,
    widths: Sequence[int],
    outputs: int,
    activation: str = "relu",
    init: Initialisation | None = None,
    bias: bool = False,
    dtype: torch.dtype = torch.float32,
    generator: torch.Generator,
) -> nn.Sequential:
    """W_L σ(W_{L-1} … σ(W_1 x)), as ``nn.Sequential`` with children flatten, hidden1, activation1, …, output.

    Every layer is drawn from ``init`` (He by default). Without biases and with a homogeneous activation the
    network is homogeneous of degree L = len(widths) + 1 in its weights. No widths give a linear classifier.

    >>> net = mlp(inputs=4, widths=[8, 6], outputs=3, generator=torch.Generator().manual_seed(0))
    >>> [name for name, _ in net.named_children()]
    ['flatten', 'hidden1', 'activation1', 'hidden2', 'activation2', 'output']
    >>> x = torch.ones(2, 4)
    >>> before = net(x)
    >>> for weight in net.parameters(): weight.data *= 2
    >>> torch.equal(net(x), 2**3 * before)
    True
    """
    for name, size in [("inputs", inputs), *(("widths", width) for width in widths), ("outputs", outputs)]:
        if size < 1:
            raise ConfigError(f"{name} holds {size}, which is not a positive number of units.")
    scheme = He() if init is None else init
    modules: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    before = inputs
    for depth, width in enumerate(widths, start=1):
        layer = draw_linear(before, width, init=scheme, bias=bias, dtype=dtype, generator=generator)
        modules[f"hidden{depth}"] = layer
        modules[f"activation{depth}"] = make_activation(activation, layer=layer)
        before = width
    modules["output"] = draw_linear(before, outputs, init=scheme, bias=bias, dtype=dtype, generator=generator)
    return nn.Sequential(modules)
