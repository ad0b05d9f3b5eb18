"""What a configuration says of its network, and how that is made of it.

Each model has its section in the file that makes it, and a line in ``MODELS`` of ``undertow.models``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from undertow.core.activations import ACTIVATIONS
from undertow.core.losses import Loss
from undertow.core.sections import Count, Section

if TYPE_CHECKING:
    from undertow.data.data_section import DataSection
    from undertow.data.dataset import Dataset

    ActivationName = str
else:
    ActivationName = Literal[tuple(ACTIVATIONS)]

__all__ = ["ActivationName", "ModelSection", "ReadOutModel"]


class ModelSection(Section, ABC):
    """The settings of a network, which can be made of them."""

    name: str

    @abstractmethod
    def build(
        self, dataset: Dataset, *, loss: Loss, dtype: torch.dtype, generator: torch.Generator
    ) -> nn.Module:
        """The network before training on these data with this loss, drawn from the generator."""

    def check(self, data: DataSection, loss: Loss) -> None:
        """A ``ValueError`` where the network is not for these data or this loss."""

    def least_weights(self, inputs: int) -> int:
        """How many weights the network has at least."""
        return inputs


class ReadOutModel(ModelSection):
    """A network that can have any number of outputs: one for losses on one logit, else one for each class."""

    outputs: Count | None = None

    def outputs_for(self, dataset: Dataset, loss: Loss) -> int:
        """As many as the settings say, or as data and loss ask for."""
        if self.outputs is not None:
            return self.outputs
        if dataset.targets is not None:
            return dataset.targets[0].numel()
        several = loss == "cross-entropy" or (loss == "square" and dataset.classes > 2)
        return dataset.classes if several else 1
