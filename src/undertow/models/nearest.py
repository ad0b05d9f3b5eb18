"""The nearest-neighbour classifier as a network: a robust one that has to remember its data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from undertow.core.errors import ConfigError
from undertow.core.losses import Loss
from undertow.models.model_section import ModelSection

if TYPE_CHECKING:
    from undertow.data.data_section import DataSection
    from undertow.data.dataset import Dataset

__all__ = ["NearestModel", "NearestNeighbour"]


class NearestModel(ModelSection):
    """The nearest-neighbour classifier of the training data, constructed and not drawn; train it for 0 epochs."""

    name: Literal["nearest"]

    def build(
        self,
        dataset: Dataset,
        *,
        loss: Loss,  # noqa: ARG002
        dtype: torch.dtype,
        generator: torch.Generator,  # noqa: ARG002
    ) -> nn.Module:
        """Anchors are the points trained on, each once."""
        points = torch.cat([dataset.x.flatten(1), dataset.y[:, None].to(dataset.x)], dim=1)
        rows = torch.unique(points, dim=0)
        return NearestNeighbour(rows[:, :-1].to(dtype), rows[:, -1].long())

    def check(self, data: DataSection, loss: Loss) -> None:  # noqa: ARG002
        if loss != "cross-entropy":
            raise ValueError("nearest gives one score for each class: choose the loss cross-entropy")


class NearestNeighbour(nn.Module):
    """Scores s_c(x) = max over anchors a of class c of ⟨a, x⟩ − ‖a‖²/2, so that the nearest anchor decides.

    A point that is an anchor keeps its class within half the distance to the nearest anchor of another one.
    The number of parameters is that of the anchors times the dimension.

    >>> net = NearestNeighbour(torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([0, 1, 0]))
    >>> net(torch.tensor([[0.4], [0.6], [2.1]])).argmax(1).tolist()
    [0, 1, 0]
    """

    def __init__(self, anchors: Tensor, labels: Tensor) -> None:
        super().__init__()
        classes = int(labels.max()) + 1
        counts = torch.bincount(labels, minlength=classes)
        if classes < 2 or int(counts.min()) == 0:
            raise ConfigError("a nearest-neighbour classifier needs anchors of two classes or more.")
        points = anchors.detach().flatten(1)
        self.anchors = nn.Parameter(points.clone())
        self.register_buffer("shift", points.square().sum(1) / 2)
        self.register_buffer("label", labels.clone())
        self.classes = classes

    def forward(self, x: Tensor) -> Tensor:
        assert isinstance(self.shift, Tensor)
        assert isinstance(self.label, Tensor)
        scores = x.flatten(1) @ self.anchors.T - self.shift
        return torch.stack(
            [scores.masked_fill(self.label != c, -torch.inf).amax(1) for c in range(self.classes)], dim=1
        )
