"""Two-layer networks: one hidden layer, and a head that the papers mostly keep fixed."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from undertow.core.errors import ConfigError, nearest
from undertow.core.losses import Loss
from undertow.core.sections import Count
from undertow.models.initialisation import (
    HeInit,
    Initialisation,
    InitSection,
    draw_linear,
    draw_normal,
    empty_linear,
)
from undertow.models.model_section import ActivationName, ReadOutModel
from undertow.models.polynomial_relu import activation as make_activation

if TYPE_CHECKING:
    from undertow.data.dataset import Dataset

__all__ = ["Head", "TwoLayerModel", "two_layer"]

Head = Literal["signs", "gaussian", "balanced-signs", "halves", "mean", "class-means"]


class TwoLayerModel(ReadOutModel):
    """A σ(W x + b) + c; see :func:`two_layer`."""

    name: Literal["two-layer"]
    width: Count
    activation: ActivationName = "relu"
    init: InitSection = HeInit()
    bias: Literal["none", "hidden", "both"] = "none"
    head: Head = "signs"

    def build(
        self, dataset: Dataset, *, loss: Loss, dtype: torch.dtype, generator: torch.Generator
    ) -> nn.Module:
        return two_layer(
            inputs=dataset.x[0].numel(),
            width=self.width,
            outputs=self.outputs_for(dataset, loss),
            activation=self.activation,
            init=self.init.build(),
            bias=self.bias,
            head=self.head,
            dtype=dtype,
            generator=generator,
        )

    def least_weights(self, inputs: int) -> int:
        return self.width * (inputs + (self.outputs or 1))


def two_layer(
    *,
    inputs: int,
    width: int,
    outputs: int = 1,
    activation: str = "relu",
    init: Initialisation,
    bias: Literal["none", "hidden", "both"] = "none",
    head: Head = "signs",
    dtype: torch.dtype = torch.float32,
    generator: torch.Generator,
) -> nn.Sequential:
    """f(x) = A σ(W x + b) + c, as ``nn.Sequential`` with children flatten, hidden, activation, output.

    W (width × inputs) and b are drawn from ``init``; c starts at 0; the head A (outputs × width) is one of

    ==================  ================================================  ==============================
    ``signs``           ±1/√m with fair random signs                      co-correlation (paper)
    ``gaussian``        N(0, σ²) with the σ of W                          co-correlation (authors)
    ``balanced-signs``  2/m times +1 (first half) or -1 (second half):    feature averaging, whose m
                        the mean of one half minus that of the other      counts one half
    ``halves``          1/√m in the first half, -1/√m in the second       stable rank (fixed head), as
                                                                          Frei et al. and Kou et al. 2023
    ``mean``            1/m everywhere                                    stable rank (trained head)
    ``class-means``     output c is the mean of the c-th block of         feature decoupling, one or
                        m/outputs neurons                                 more neurons per class
    ==================  ================================================  ==============================

    Nothing is frozen here: what stays as it was drawn is named in ``Recipe.frozen``, for example
    ``("output.weight",)``. Random numbers are taken in the order W, b, A.

    >>> from undertow.models import Scaled
    >>> net = two_layer(inputs=3, width=4, init=Scaled(q=0.25), generator=torch.Generator().manual_seed(0))
    >>> net(torch.zeros(5, 3)).shape, net.output.weight.abs().tolist()
    (torch.Size([5, 1]), [[0.5, 0.5, 0.5, 0.5]])
    """
    for name, size in {"inputs": inputs, "width": width, "outputs": outputs}.items():
        if size < 1:
            raise ConfigError(f"{name} = {size} is not a positive number of units.")
    if head not in _HEADS:
        raise ConfigError(f"There is no head {head!r}: {nearest(head, _HEADS)}")
    if bias not in ("none", "hidden", "both"):
        raise ConfigError(f"bias = {bias!r} is unknown: {nearest(str(bias), ['none', 'hidden', 'both'])}")

    hidden = draw_linear(inputs, width, init=init, bias=bias != "none", dtype=dtype, generator=generator)
    output = empty_linear(width, outputs, bias=bias == "both", dtype=dtype)
    with torch.no_grad():
        std = init.weight_std(inputs=inputs, width=width)
        output.weight.copy_(_HEADS[head](outputs, width, std, generator))
        if output.bias is not None:
            output.bias.zero_()
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            hidden=hidden,
            activation=make_activation(activation, layer=hidden),
            output=output,
        )
    )


def _signs(outputs: int, width: int, std: float, generator: torch.Generator) -> Tensor:  # noqa: ARG001
    signs = torch.randint(0, 2, (outputs, width), generator=generator) * 2 - 1
    return signs.double() / math.sqrt(width)


def _gaussian(outputs: int, width: int, std: float, generator: torch.Generator) -> Tensor:
    return draw_normal((outputs, width), std=std, generator=generator)


def _balanced_signs(outputs: int, width: int, std: float, generator: torch.Generator) -> Tensor:  # noqa: ARG001
    return _in_halves("balanced-signs", outputs, width, 2 / width)


def _halves(outputs: int, width: int, std: float, generator: torch.Generator) -> Tensor:  # noqa: ARG001
    return _in_halves("halves", outputs, width, 1 / math.sqrt(width))


def _in_halves(name: str, outputs: int, width: int, size: float) -> Tensor:
    """(size, …, size, −size, …, −size)."""
    if width % 2 or outputs != 1:
        raise ConfigError(
            f"The head {name!r} splits an even width into halves for one output; here the width is "
            f"{width} with {outputs} output(s): use an even width and outputs=1, or another head."
        )
    half = torch.full((1, width // 2), size, dtype=torch.float64)
    return torch.cat([half, -half], dim=1)


def _mean(outputs: int, width: int, std: float, generator: torch.Generator) -> Tensor:  # noqa: ARG001
    return torch.full((outputs, width), 1 / width, dtype=torch.float64)


def _class_means(outputs: int, width: int, std: float, generator: torch.Generator) -> Tensor:  # noqa: ARG001
    if width % outputs:
        raise ConfigError(
            f"The head 'class-means' gives each of {outputs} outputs the same number of neurons, which "
            f"{width} is not a multiple of: use a width of {outputs * max(1, round(width / outputs))}."
        )
    block = width // outputs
    return torch.eye(outputs, dtype=torch.float64).repeat_interleave(block, dim=1) / block


_HEADS: dict[str, Callable[[int, int, float, torch.Generator], Tensor]] = {
    "signs": _signs,
    "gaussian": _gaussian,
    "balanced-signs": _balanced_signs,
    "halves": _halves,
    "mean": _mean,
    "class-means": _class_means,
}
