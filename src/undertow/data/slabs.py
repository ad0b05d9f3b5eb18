"""Slab data: one simple feature and many complex ones, each enough to classify (Shah et al. 2020)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from undertow.core.errors import InputError
from undertow.core.sections import Count, Positive
from undertow.data.data_section import DrawnData
from undertow.data.dataset import Dataset
from undertow.data.drawing import cpu_generator, require_positive

__all__ = ["SlabsData", "slabs"]


class SlabsData(DrawnData):
    """One linear coordinate and d − 1 of several slabs (Shah et al. 2020); see :func:`slabs`."""

    name: Literal["slabs"]
    d: Count = 50
    pieces: Count = 5
    margin: Positive = 0.1

    def draw(self, n: int, seed: int, *, like: Dataset | None) -> Dataset:  # noqa: ARG002
        return slabs(n=n, d=self.d, pieces=self.pieces, margin=self.margin, seed=seed)

    def least_shape(self) -> tuple[int, int]:
        return self.n, self.d


def slabs(
    *,
    n: int,
    d: int = 50,
    pieces: int = 5,
    margin: float = 0.1,
    seed: int = 0,
    generator: torch.Generator | None = None,
) -> Dataset:
    """LMS-k: the first coordinate is linear, the other d − 1 lie in k = ``pieces`` slabs of alternating labels.

    Given y = ±1 all coordinates are independent. The linear one is y·U[γ, 1], with the ``margin`` γ. A slab
    coordinate lies in one of k equal intervals of [−1, 1], 2γ apart, whose labels alternate −, +, −, …, each
    interval of the right label being equally likely: k is odd, so that both outer slabs have one label, the
    coordinate is symmetric, and it is not correlated with the label. Every coordinate alone separates the
    classes with margin γ; a classifier that uses all of them has up to √d times as much.

    Labels are 1 for y = +1 and 0 for y = −1. ``generator``, a CPU one, replaces ``seed``.

    >>> data = slabs(n=200, d=3, pieces=3, margin=0.2)
    >>> bool(((data.x[:, 0] > 0) == (data.y == 1)).all())       # the linear coordinate
    True
    >>> bool(((data.x[:, 1:].abs() < 0.2) == (data.y == 1)[:, None]).all())   # −, +, −: the middle slab is +
    True
    """
    require_positive("slabs", n=n, d=d - 1, pieces=pieces - 2)
    if pieces % 2 == 0:
        raise InputError(
            f"slabs: pieces={pieces} is even, and a linear function would see it; use an odd one."
        )
    width = (2.0 - (pieces - 1) * 2 * margin) / pieces
    if margin <= 0 or width <= 0:
        most = 1 / (pieces - 1)
        raise InputError(f"slabs: margin={margin} must lie between 0 and 1/(pieces − 1) = {most:g}.")
    draw = cpu_generator(seed, generator)
    y = torch.randint(2, (n,), generator=draw)
    linear = (2 * y - 1) * _uniform((n,), margin, 1.0, draw)
    choices = torch.stack([pieces // 2 + 1 - y, y])  # how many slabs a label has, and the first of them
    share = torch.rand(n, d - 1, generator=draw, dtype=torch.float64)
    slab = 2 * (share * choices[0][:, None]).long() + choices[1][:, None]
    low = -1.0 + slab * (width + 2 * margin)
    coordinates = low + width * torch.rand(n, d - 1, generator=draw, dtype=torch.float64)
    x = torch.cat([linear[:, None], coordinates], dim=1)
    return Dataset.of(x.float(), y, name="slabs", classes=2)


def _uniform(shape: tuple[int, ...], low: float, high: float, draw: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(shape, generator=draw, dtype=torch.float64)
