"""Two-layer networks with a slope of one's choice and a start that may be active on all of its class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from undertow.core.losses import Loss
from undertow.core.sections import Count, Fraction
from undertow.models.initialisation import HeInit, InitSection
from undertow.models.model_section import ModelSection
from undertow.models.two_layer import two_layer

if TYPE_CHECKING:
    from undertow.data.data_section import DataSection
    from undertow.data.dataset import Dataset

__all__ = ["SlopedTwoLayerModel", "active_on_own_class"]


class SlopedTwoLayerModel(ModelSection):
    """f(x) = Σ_j a_j σ(⟨w_j, x⟩), a_j = 1/√m in the first half and −1/√m in the second, σ(z) = max(z, slope·z).

    ``start = "active"`` turns every neuron's drawn weights so that it is active on all points of its class, those whose
    sign is that of a_j; see :func:`active_on_own_class`. The name is that of what is put in: interventions on the rank.
    """

    name: Literal["sloped-two-layer"]
    width: Count
    slope: Fraction = 0.0
    init: InitSection = HeInit()
    start: Literal["drawn", "active"] = "drawn"

    def build(
        self,
        dataset: Dataset,
        *,
        loss: Loss,  # noqa: ARG002
        dtype: torch.dtype,
        generator: torch.Generator,
    ) -> nn.Module:
        net = two_layer(
            inputs=dataset.x[0].numel(),
            width=self.width,
            init=self.init.build(),
            head="halves",
            dtype=dtype,
            generator=generator,
        )
        if self.slope:
            net.activation = nn.LeakyReLU(self.slope)
        if self.start == "active":
            weight: Tensor = net.hidden.weight  # type: ignore[assignment,union-attr]
            signs = torch.cat([torch.ones(self.width // 2), -torch.ones(self.width // 2)])
            with torch.no_grad():
                weight.copy_(active_on_own_class(weight, signs, dataset.x.flatten(1), 2 * dataset.y - 1))
        return net

    def check(self, data: DataSection, loss: Loss) -> None:  # noqa: ARG002
        if loss == "cross-entropy":
            raise ValueError(f"{self.name} has one logit: write training.loss = 'logistic'")
        if self.width % 2:
            raise ValueError(f"{self.name} has a half of neurons for each sign: use an even width")

    def least_weights(self, inputs: int) -> int:
        return self.width * (inputs + 1)


def active_on_own_class(weight: Tensor, signs: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """W with ⟨w_j, x_i⟩ turned into |⟨w_j, x_i⟩| for all i with y_i = sign of neuron j: (m, d) in float64.

    The least change that does so, by the pseudo-inverse of the class's points (c, d), which are to be linearly
    independent; on orthogonal points it touches the points of the other class not at all.

    >>> weight, x = torch.tensor([[-2.0, 1.0]]), torch.eye(2)
    >>> active_on_own_class(weight, torch.tensor([1.0]), x, torch.tensor([1, -1])).tolist()
    [[2.0, 1.0]]
    """
    turned, x = weight.detach().double().clone(), x.double()
    for sign in (-1, 1):
        neurons, own = signs == sign, x[y == sign]
        if not len(own) or not bool(neurons.any()):
            continue
        products = turned[neurons] @ own.T
        turned[neurons] += (products.abs() - products) @ torch.linalg.pinv(own).T
    return turned
