"""Random labels mixed in: a share of the training points with labels that say nothing (Zhang et al. 2017)."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from undertow.core.streams import stream
from undertow.data.data_section import Split
from undertow.data.dataset import Dataset
from undertow.data.derived import DerivedData

__all__ = ["MixedLabelsData", "mixed_labels"]


class MixedLabelsData(DerivedData):
    """The training points of ``of``, a ``share`` of them with random labels; other splits keep their true ones."""

    name: Literal["mixed-labels"]
    share: Annotated[float, Field(strict=True, ge=0, le=1)] = 0.5

    def build(self) -> Dataset:
        assert self.seed is not None, "a trial's configuration is resolved"
        source = self.of.build()
        y = mixed_labels(source.y, source.classes, self.share, seed=stream(self.seed, "data"))
        return source.with_content(y=y)

    def points(self, dataset: Dataset, *, split: Split | None, limit: int | None) -> Dataset:
        return self.of.points(dataset, split=split, limit=limit)


def mixed_labels(y: Tensor, classes: int, share: float, *, seed: int) -> Tensor:
    """``y`` with round(share·n) labels, at places drawn from the seed, uniform over the classes, true one included.

    Places and labels are the same for every share: those of a smaller one are among those of a larger one.

    >>> mixed_labels(torch.zeros(8, dtype=torch.long), 5, 0.5, seed=0).count_nonzero().item() <= 4
    True
    """
    draw = torch.Generator().manual_seed(seed)
    places = torch.randperm(len(y), generator=draw)[: round(share * len(y))]
    labels = torch.randint(classes, y.shape, generator=draw).to(y)
    mixed = y.clone()
    mixed[places] = labels[places]
    return mixed
