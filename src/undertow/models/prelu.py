"""The networks of Min & Vidal (2024): pReLU of any power, both layers trained from a small balanced start."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Annotated, Literal

import torch
from pydantic import Field
from torch import nn

from undertow.core.errors import ConfigError
from undertow.core.losses import Loss
from undertow.core.sections import Count, Positive
from undertow.models.initialisation import draw_normal, empty_linear
from undertow.models.model_section import ModelSection
from undertow.models.polynomial_relu import PolynomialReLU

if TYPE_CHECKING:
    from undertow.data.data_section import DataSection
    from undertow.data.dataset import Dataset

__all__ = ["PreluModel", "prelu_network"]


class PreluModel(ModelSection):
    """Min & Vidal's pReLU network, both layers from a balanced start; see :func:`prelu_network`."""

    name: Literal["prelu"]
    width: Count
    power: Annotated[float, Field(strict=True, ge=1, le=100)] = 1.0
    scale: Positive = 1e-7

    def build(
        self,
        dataset: Dataset,
        *,
        loss: Loss,  # noqa: ARG002
        dtype: torch.dtype,
        generator: torch.Generator,
    ) -> nn.Module:
        return prelu_network(
            inputs=dataset.x[0].numel(),
            width=self.width,
            power=self.power,
            scale=self.scale,
            dtype=dtype,
            generator=generator,
        )

    def check(self, data: DataSection, loss: Loss) -> None:  # noqa: ARG002
        if loss == "cross-entropy":
            raise ValueError("prelu gives one logit: choose the loss exponential, logistic or bce")

    def least_weights(self, inputs: int) -> int:
        return self.width * inputs


def prelu_network(
    *,
    inputs: int,
    width: int,
    power: float,
    scale: float,
    dtype: torch.dtype = torch.float32,
    generator: torch.Generator,
) -> nn.Sequential:
    """f(x) = Σ_j v_j σ(⟨w_j, x⟩)^p / ‖w_j‖^(p−1), with children flatten, hidden, activation, output.

    w_j ~ N(0, ``scale``² I/inputs), so that ‖w_j‖ ≈ scale, and v_j = ±‖w_j‖ with fair random signs: balanced
    layers, which gradient flow keeps balanced, as f is homogeneous of degree 1 in each of them. For p = 1
    this is a ReLU network.

    >>> net = prelu_network(inputs=3, width=4, power=3, scale=1e-2, generator=torch.Generator().manual_seed(0))
    >>> torch.allclose(net.output.weight.abs()[0], net.hidden.weight.norm(dim=1))
    True
    >>> net.activation
    PolynomialReLU(power=3)
    """
    for name, size in {"inputs": inputs, "width": width}.items():
        if size < 1:
            raise ConfigError(f"{name} = {size} is not a positive number of units.")
    if power < 1 or scale <= 0:
        raise ConfigError(f"power = {power:g} must be 1 or more, and scale = {scale:g} positive.")
    hidden = empty_linear(inputs, width, bias=False, dtype=dtype)
    output = empty_linear(width, 1, bias=False, dtype=dtype)
    with torch.no_grad():
        weight = draw_normal((width, inputs), std=scale / inputs**0.5, generator=generator)
        signs = torch.randint(0, 2, (width,), generator=generator) * 2 - 1
        hidden.weight.copy_(weight)
        output.weight.copy_((signs * weight.norm(dim=1))[None, :])
    activation = nn.ReLU() if power == 1 else PolynomialReLU(power, hidden)
    return nn.Sequential(
        OrderedDict(flatten=nn.Flatten(), hidden=hidden, activation=activation, output=output)
    )
