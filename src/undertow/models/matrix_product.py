"""A product of square matrices, read entry by entry: deep matrix factorisation (Arora, Cohen, Hu & Luo 2019)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from undertow.core.errors import ConfigError
from undertow.core.losses import Loss
from undertow.core.sections import Count, Positive
from undertow.models.initialisation import draw_normal
from undertow.models.model_section import ModelSection

if TYPE_CHECKING:
    from undertow.data.data_section import DataSection
    from undertow.data.dataset import Dataset

__all__ = ["MatrixProduct", "MatrixProductModel"]


class MatrixProductModel(ModelSection):
    """W_L … W_1 for a matrix whose entries are the data; see :class:`MatrixProduct`."""

    name: Literal["matrix-product"]
    depth: Count = 2
    start: Positive = 1e-3

    def build(
        self,
        dataset: Dataset,
        *,
        loss: Loss,  # noqa: ARG002
        dtype: torch.dtype,
        generator: torch.Generator,
    ) -> nn.Module:
        size = len(dataset.details["matrix"])
        return MatrixProduct(size, self.depth, self.start, dtype=dtype, generator=generator)

    def check(self, data: DataSection, loss: Loss) -> None:
        if data.name != "matrix-entries" or loss != "square":
            raise ValueError("matrix-product is for the data matrix-entries and the loss square")


class MatrixProduct(nn.Module):
    """f(i, j) = (W_L … W_1)_ij, from entries of the layers that are Gaussian.

    They are drawn so that the product's entries have the standard deviation ``start``: that of a layer, s, makes
    s^L size^((L−1)/2) of it.

    >>> net = MatrixProduct(3, depth=2, start=0.1, generator=torch.Generator().manual_seed(0))
    >>> torch.allclose(net(torch.tensor([[1.0, 2.0]]))[0, 0], net.product()[1, 2])
    True
    """

    def __init__(
        self,
        size: int,
        depth: int,
        start: float,
        *,
        dtype: torch.dtype = torch.float32,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if size < 1 or depth < 1 or start <= 0:
            raise ConfigError(
                f"size = {size}, depth = {depth} and start = {start:g} must be positive numbers."
            )
        std = math.exp((math.log(start) - (depth - 1) / 2 * math.log(size)) / depth)
        draws = [draw_normal((size, size), std=std, generator=generator) for _ in range(depth)]
        self.layers = nn.ParameterList([nn.Parameter(each.to(dtype)) for each in draws])

    def product(self) -> Tensor:
        """W_L … W_1."""
        whole: Tensor = self.layers[0]
        for layer in list(self.layers)[1:]:
            whole = layer @ whole
        return whole

    def forward(self, places: Tensor) -> Tensor:
        rows, columns = places[..., 0].long(), places[..., 1].long()
        return self.product()[rows, columns].unsqueeze(-1)

    @staticmethod
    def stacked_outputs(
        weights: Mapping[str, Tensor], x: Tensor, own: bool
    ) -> tuple[Tensor, tuple[list[Tensor], Tensor]]:
        """Entries of the products of M networks (:class:`undertow.core.closed_form.ClosedForm`)."""
        layers = [weights[f"layers.{place}"] for place in range(len(weights))]
        products = layers[:1]
        for layer in layers[1:]:
            products.append(torch.bmm(layer, products[-1]))
        members, size = products[-1].shape[:2]
        places = (x[..., 0].long() * size + x[..., 1].long()).expand(members, x.shape[1 if own else 0])
        return products[-1].flatten(1).gather(1, places).unsqueeze(2), (products, places)

    @staticmethod
    def stacked_gradients(
        weights: Mapping[str, Tensor], kept: tuple[list[Tensor], Tensor], slopes: Tensor
    ) -> dict[str, Tensor]:
        """(W_L … W_(k+1))ᵀ G (W_(k−1) … W_1)ᵀ, where G holds the slopes at their entries."""
        products, places = kept
        above = torch.zeros_like(products[0]).flatten(1).scatter_add_(1, places, slopes[:, :, 0])
        above = above.view_as(products[0])
        found = {}
        for place in range(len(products) - 1, 0, -1):
            found[f"layers.{place}"] = torch.bmm(above, products[place - 1].mT)
            above = torch.bmm(weights[f"layers.{place}"].mT, above)
        return {**found, "layers.0": above}
