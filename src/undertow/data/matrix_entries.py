"""Entries of a low-rank matrix: what matrix completion sees (Arora, Cohen, Hu & Luo 2019)."""

from __future__ import annotations

from typing import Literal

import torch

from undertow.core.errors import InputError
from undertow.core.sections import Count
from undertow.data.data_section import DrawnData
from undertow.data.dataset import Dataset
from undertow.data.drawing import cpu_generator, require_positive

__all__ = ["MatrixEntriesData", "matrix_entries"]


class MatrixEntriesData(DrawnData):
    """n entries of a random matrix of low rank; see :func:`matrix_entries`."""

    name: Literal["matrix-entries"]
    n: Count = 2000
    size: Count = 100
    rank: Count = 5

    def draw(self, n: int, seed: int, *, like: Dataset | None) -> Dataset:  # noqa: ARG002
        return matrix_entries(n=n, size=self.size, rank=self.rank, seed=seed)

    def least_shape(self) -> tuple[int, int]:
        return self.n, 2


def matrix_entries(*, n: int, size: int = 100, rank: int = 5, seed: int = 0) -> Dataset:
    """n entries, drawn without replacement, of Y = U Vᵀ scaled to ‖Y‖_F = size; U and V are Gaussian.

    An input is (row, column), its target Y_ij. ``details`` have the ``matrix`` and the mask ``seen``.

    >>> data = matrix_entries(n=3, size=2, rank=1)
    >>> i, j = data.x[0].long().tolist()
    >>> bool(data.details["matrix"][i, j] == data.labels[0]), int(data.details["seen"].sum())
    (True, 3)
    """
    require_positive("matrix-entries", n=n, size=size, rank=rank)
    if n > size**2 or rank > size:
        raise InputError(
            f"matrix-entries: a matrix of {size} × {size} has {size**2} entries and rank {size}."
        )
    draw = cpu_generator(seed, None)
    U, V = (torch.randn(size, rank, generator=draw, dtype=torch.float64) for _ in range(2))
    matrix = U @ V.T
    matrix = (size * matrix / matrix.norm()).float()
    chosen = torch.randperm(size**2, generator=draw)[:n].sort().values
    seen = torch.zeros(size**2, dtype=torch.bool).index_fill(0, chosen, True).view(size, size)
    places = torch.stack([chosen // size, chosen % size], dim=1).float()
    details = {"matrix": matrix, "seen": seen}
    return Dataset.of_targets(places, matrix.flatten()[chosen], name="matrix-entries", details=details)
