"""Linearly separable data whose linear classifier is fragile and whose robust one must remember (Li et al. 2022)."""

from __future__ import annotations

from typing import Literal

import torch

from undertow.core.errors import InputError
from undertow.core.sections import Count, Positive
from undertow.data.data_section import DrawnData
from undertow.data.dataset import Dataset
from undertow.data.drawing import cpu_generator, require_positive

__all__ = ["LowerBoundData", "lower_bound"]


class LowerBoundData(DrawnData):
    """Vertices with arbitrary labels and a short linear coordinate; see :func:`lower_bound`."""

    name: Literal["lower-bound"]
    d: Count = 20
    corners: Count = 500
    margin: Positive = 0.05

    def draw(self, n: int, seed: int, *, like: Dataset | None) -> Dataset:  # noqa: ARG002
        corner_seed = self.stream("data")
        return lower_bound(
            n=n, corners=self.corners, d=self.d, margin=self.margin, seed=seed, corner_seed=corner_seed
        )

    def least_shape(self) -> tuple[int, int]:
        return max(self.n, self.corners), self.d


def lower_bound(
    *, n: int, corners: int, d: int, margin: float, seed: int = 0, corner_seed: int | None = None
) -> Dataset:
    """n points x = (s, yγ): s one of ``corners`` vertices of {−1, +1}^(d−1) with a random label y each.

    The last coordinate alone classifies, with margin γ: a linear classifier is perfect, and within any ε > γ
    it is wrong. The vertices differ in a coordinate at least, so that two points of different labels are
    2 apart or more, and the nearest-neighbour classifier is robust within every ε < 1; but the labels of the
    vertices follow no rule, and such a classifier has to remember them: with more than 2d vertices no linear
    function can (Cover 1965). This is the idea of Li et al. (2022, lower bound for linearly separable data),
    with the smallest ingredients.

    Every vertex occurs as often as any other, give or take one, in an order drawn from ``seed``. Vertices and their
    labels come from ``corner_seed`` (``seed`` by default): keep it for test data of the same distribution.
    ``details`` has "corner" (n,) and "corners" (corners, d).

    >>> data = lower_bound(n=6, corners=4, d=5, margin=0.1)
    >>> (data.x[:, :4].abs() == 1).all().item(), data.x[:, 4].abs().unique().tolist() == [0.10000000149011612]
    (True, True)
    >>> bool(((data.x[:, 4] > 0) == (data.y == 1)).all())
    True
    """
    require_positive("lower_bound", n=n, corners=corners - 1, d=d - 1)
    if margin <= 0:
        raise InputError(f"lower_bound: margin={margin} must be positive.")
    if d - 1 < 60 and corners > 2 ** (d - 2):
        raise InputError(
            f"lower_bound: {corners} of the {2 ** (d - 1)} vertices in {d - 1} dimensions; raise d, so that they "
            "are at most half of them."
        )
    draw = cpu_generator(seed if corner_seed is None else corner_seed, None)
    vertices = torch.empty(0, d - 1, dtype=torch.int64)
    while len(vertices) < corners:  # the few that were drawn twice are drawn anew
        fresh = 2 * torch.randint(2, (corners, d - 1), generator=draw) - 1
        together = torch.cat([vertices, fresh])
        _, which = torch.unique(together, dim=0, return_inverse=True)
        first = torch.full((int(which.max()) + 1,), len(together)).scatter_reduce(
            0, which, torch.arange(len(together)), "amin"
        )
        vertices = together[first.sort().values][:corners]
    label = torch.randint(2, (corners,), generator=draw)
    points = torch.cat([vertices.double(), margin * (2.0 * label - 1)[:, None]], dim=1).float()
    order = cpu_generator(seed ^ 0x5EED, None)
    picks = torch.cat([torch.randperm(corners, generator=order) for _ in range(-(-n // corners))])[:n]
    return Dataset.of(
        points[picks],
        label[picks],
        name="lower-bound",
        classes=2,
        details={"corner": picks, "corners": points},
        aligned=("corner",),
    )
