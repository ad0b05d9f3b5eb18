"""Diagonal linear networks: a linear function whose weights are differences of squares (Woodworth et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from undertow.core.losses import Loss
from undertow.core.sections import Positive
from undertow.models.model_section import ModelSection

if TYPE_CHECKING:
    from undertow.data.data_section import DataSection
    from undertow.data.dataset import Dataset

__all__ = ["DiagonalModel", "DiagonalNetwork"]


class DiagonalModel(ModelSection):
    """f(x) = ⟨u² − v², x⟩ from u = v = α; see :class:`DiagonalNetwork`."""

    name: Literal["diagonal"]
    start: Positive = 1.0

    def build(
        self,
        dataset: Dataset,
        *,
        loss: Loss,  # noqa: ARG002
        dtype: torch.dtype,
        generator: torch.Generator,  # noqa: ARG002
    ) -> nn.Module:
        return DiagonalNetwork(dataset.x[0].numel(), self.start, dtype=dtype)

    def check(self, data: DataSection, loss: Loss) -> None:  # noqa: ARG002
        if loss == "cross-entropy":
            raise ValueError("diagonal gives one logit: choose the loss exponential, logistic or bce")


class DiagonalNetwork(nn.Module):
    """f(x) = ⟨u² − v², x⟩, homogeneous of degree 2, from u = v = ``start``, where f = 0.

    From a large start it follows its kernel, which is linear, at first; weight decay makes it small later.

    >>> net = DiagonalNetwork(2, 3.0)
    >>> _ = net.u.data.copy_(torch.tensor([3.0, 5.0]))
    >>> net.weight().tolist(), net(torch.tensor([[1.0, 0.5]])).item()
    ([0.0, 16.0], 8.0)
    """

    def __init__(self, inputs: int, start: float, *, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.full((inputs,), start, dtype=dtype))
        self.v = nn.Parameter(torch.full((inputs,), start, dtype=dtype))

    def weight(self) -> Tensor:
        """w = u² − v², of which the network is the linear function."""
        return self.u.square() - self.v.square()

    def forward(self, x: Tensor) -> Tensor:
        return (x.flatten(1) @ self.weight()).unsqueeze(-1)

    @staticmethod
    def stacked_outputs(
        weights: Mapping[str, Tensor], x: Tensor, own: bool
    ) -> tuple[Tensor, tuple[Tensor, bool]]:
        """⟨u² − v², x⟩ of M networks (:class:`undertow.core.closed_form.ClosedForm`)."""
        w = weights["u"].square() - weights["v"].square()
        x = x.flatten(2 if own else 1)
        return (torch.bmm(x, w.unsqueeze(2)) if own else (w @ x.T).unsqueeze(2)), (x, own)

    @staticmethod
    def stacked_gradients(
        weights: Mapping[str, Tensor], kept: tuple[Tensor, bool], slopes: Tensor
    ) -> dict[str, Tensor]:
        """2u ∘ Σ slope x and −2v ∘ Σ slope x."""
        x, own = kept
        summed = torch.bmm(slopes.mT, x)[:, 0] if own else slopes[:, :, 0] @ x
        return {"u": 2 * weights["u"] * summed, "v": -2 * weights["v"] * summed}
