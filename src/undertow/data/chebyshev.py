"""Chebyshev polynomials: the cheapest regression that shows the edge of stability (Cohen et al. 2021)."""

from __future__ import annotations

from typing import Literal

import torch

from undertow.core.sections import Count
from undertow.data.data_section import DataSection, Split
from undertow.data.dataset import Dataset
from undertow.data.drawing import require_positive

__all__ = ["ChebyshevData", "chebyshev"]


class ChebyshevData(DataSection):
    """n points of the Chebyshev polynomial of a degree; see :func:`chebyshev`."""

    name: Literal["chebyshev"]
    n: Count = 20
    degree: Count = 4

    def build(self) -> Dataset:
        return chebyshev(n=self.n, degree=self.degree)

    def points(self, dataset: Dataset, *, split: Split | None, limit: int | None) -> Dataset:  # noqa: ARG002
        return dataset if limit is None else dataset.take(range(min(limit, len(dataset))))

    def check_split(self, split: Split | None) -> None:
        if split not in (None, "train"):
            raise ValueError("chebyshev has the points trained on and no others: leave probe.split out")

    def least_shape(self) -> tuple[int, int]:
        return self.n, 1


def chebyshev(*, n: int = 20, degree: int = 4) -> Dataset:
    """T_k(x) = cos(k arccos x) at n evenly spaced points of [−1, 1] (Cohen et al. 2021, Appendix).

    >>> data = chebyshev(n=3, degree=2)      # 2x² − 1
    >>> data.x.flatten().tolist(), [round(value, 6) for value in data.labels.tolist()]
    ([-1.0, 0.0, 1.0], [1.0, -1.0, 1.0])
    """
    require_positive("chebyshev", n=n - 1, degree=degree)
    x = torch.linspace(-1.0, 1.0, n, dtype=torch.float64)
    targets = torch.cos(degree * torch.arccos(x.clamp(-1.0, 1.0)))
    return Dataset.of_targets(x[:, None].float(), targets.float(), name=f"chebyshev-{degree}")
