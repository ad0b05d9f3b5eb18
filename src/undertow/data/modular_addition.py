"""Addition modulo p: the task on which networks generalise long after they have fitted (Power et al. 2022)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import torch
from pydantic import Field
from torch.nn import functional

from undertow.core.sections import Count, Seed
from undertow.core.streams import stream
from undertow.data.data_section import DataSection, Split
from undertow.data.dataset import Dataset
from undertow.data.drawing import require_positive

__all__ = ["ModularAdditionData", "modular_addition"]


class ModularAdditionData(DataSection):
    """A share of all pairs; the split "test" are the others, "all" both; see :func:`modular_addition`."""

    name: Literal["modular-addition"]
    p: Count = 113
    share: Annotated[float, Field(strict=True, gt=0, lt=1)] = 0.4
    seed: Seed | None = None

    def build(self) -> Dataset:
        return self._pairs("train")

    def points(self, dataset: Dataset, *, split: Split | None, limit: int | None) -> Dataset:
        chosen = dataset if split is None else self._pairs(split)
        return chosen if limit is None else chosen.take(range(min(limit, len(chosen))))

    def with_seed(self, seed: int) -> Self:
        return self if self.seed is not None else self.model_copy(update={"seed": seed})

    def least_shape(self) -> tuple[int, int]:
        return int(self.share * self.p**2), 2 * self.p

    def _pairs(self, split: Split) -> Dataset:
        assert self.seed is not None, "a trial's configuration is resolved"
        return modular_addition(p=self.p, share=self.share, split=split, seed=stream(self.seed, "data"))


def modular_addition(*, p: int, share: float = 0.4, split: Split = "train", seed: int = 0) -> Dataset:
    """Pairs (a, b) as two one-hot vectors, of class a + b mod p; a ``share`` of the p² pairs is seen.

    The split "all" has the pairs seen first; ``details["seen"]`` tells them from the others.

    >>> data = modular_addition(p=5, share=0.4, split="all")
    >>> len(data), int(data.details["seen"].sum()), bool(data.details["seen"][:10].all())
    (25, 10, True)
    >>> (data.x[0].view(2, 5).argmax(1).sum() % 5 == data.y[0]).item()
    True
    """
    require_positive("modular-addition", p=p - 1, pairs=int(share * p**2))
    order = torch.randperm(p**2, generator=torch.Generator().manual_seed(seed))
    count = int(share * p**2)
    chosen = {"train": order[:count], "test": order[count:], "all": order}[split]
    a, b = chosen // p, chosen % p
    x = torch.cat([functional.one_hot(a, p), functional.one_hot(b, p)], dim=1).float()
    seen = torch.zeros(p**2, dtype=torch.bool).index_fill(0, order[:count], True)[chosen]
    return Dataset.of(
        x, (a + b) % p, name=f"modular-addition-{p}", classes=p, details={"seen": seen}, aligned=["seen"]
    )
