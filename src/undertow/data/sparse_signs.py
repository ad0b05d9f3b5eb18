"""Points of ±1 whose label is decided by a few of their coordinates (Lyu et al. 2024, §4)."""

from __future__ import annotations

from typing import Literal

import torch

from undertow.core.errors import InputError
from undertow.core.sections import Count
from undertow.data.data_section import DrawnData
from undertow.data.dataset import Dataset
from undertow.data.drawing import cpu_generator, require_positive

__all__ = ["SparseSignsData", "sparse_signs"]


class SparseSignsData(DrawnData):
    """n points in {−1, 1}^d, labelled by the majority of the first k coordinates; see :func:`sparse_signs`."""

    name: Literal["sparse-signs"]
    n: Count = 30
    d: Count = 60
    k: Count = 3

    def draw(self, n: int, seed: int, *, like: Dataset | None) -> Dataset:  # noqa: ARG002
        return sparse_signs(n=n, d=self.d, k=self.k, seed=seed)

    def least_shape(self) -> tuple[int, int]:
        return self.n, self.d


def sparse_signs(*, n: int, d: int, k: int = 3, seed: int = 0) -> Dataset:
    """x uniform on {−1, 1}^d, y = sign(x_1 + … + x_k) with k odd; ``details["signed"]`` are the rows y x.

    >>> data = sparse_signs(n=5, d=4, k=1)
    >>> bool(((data.x[:, 0] > 0) == (data.y == 1)).all()), bool((data.details["signed"][:, 0] > 0).all())
    (True, True)
    """
    require_positive("sparse-signs", n=n, d=d, k=k)
    if k % 2 == 0 or k > d:
        raise InputError(
            f"sparse-signs: k={k} coordinates have a majority where k is odd, and at most d={d}."
        )
    x = 2.0 * torch.randint(0, 2, (n, d), generator=cpu_generator(seed, None)) - 1
    y = (x[:, :k].sum(1) > 0).long()
    return Dataset.of(
        x, y, name="sparse-signs", classes=2, details={"signed": x * (2 * y - 1)[:, None]}, aligned=["signed"]
    )
