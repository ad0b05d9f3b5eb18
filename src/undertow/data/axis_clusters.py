"""Clusters around the first coordinate axes: D_binary in coordinates that show its centres."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from pydantic import Field

from undertow.core.errors import InputError
from undertow.core.sections import Count, NonNegative, Positive
from undertow.data.clusters import d_binary
from undertow.data.data_section import DrawnData
from undertow.data.dataset import Dataset
from undertow.data.drawing import require_positive

__all__ = ["AxisClustersData", "axis_clusters"]


class AxisClustersData(DrawnData):
    """Clusters around the first k coordinate axes; see :func:`axis_clusters`."""

    name: Literal["axis-clusters"]
    d: Count = 1000
    k: Annotated[int, Field(strict=True, ge=2, le=10**6)] = 10
    positive: Count | None = None
    sigma: NonNegative = 1.0
    norm: Positive | None = None
    ambient: Count | None = None

    def draw(self, n: int, seed: int, *, like: Dataset | None) -> Dataset:  # noqa: ARG002
        return axis_clusters(
            n=n,
            d=self.d,
            k=self.k,
            positive=self.positive,
            sigma=self.sigma,
            norm=self.norm,
            ambient=self.ambient,
            seed=seed,
        )

    def least_shape(self) -> tuple[int, int]:
        return max(self.n, self.k), max(self.d, self.ambient or 0)


def axis_clusters(
    *,
    n: int,
    d: int,
    k: int,
    positive: int | None = None,
    sigma: float = 1.0,
    norm: float | None = None,
    ambient: int | None = None,
    seed: int = 0,
) -> Dataset:
    """x = ‖μ‖ e_j + ξ, the cluster j uniform in 1 … k, label 1 for the first ``positive`` clusters (half of them).

    Gaussian starts and noise look the same from every direction, so that orthogonal centres may be laid on the
    axes: the distribution of everything that gradient descent does is the same, and a measure can read the
    centres off the coordinates. The centres have length √d or ``norm``, the noise is N(0, σ² I_d). With
    ``ambient`` > d the points lie in the subspace of the first d coordinates of a larger space.

    ``details`` are those of ``d_binary``. Another seed draws test data of the same distribution.

    >>> data = axis_clusters(n=5, d=3, k=2, sigma=0.0, norm=2.0, ambient=4)
    >>> sorted(set(map(tuple, data.x.tolist())))
    [(0.0, 2.0, 0.0, 0.0), (2.0, 0.0, 0.0, 0.0)]
    """
    half = k // 2 if positive is None else positive
    require_positive("axis_clusters", n=n, d=d, k=k - 1, positive=half, negative=k - half)
    if k > d:
        raise InputError(f"axis_clusters: {k} centres need {k} axes, and d is {d}; raise d.")
    space = d if ambient is None else ambient
    if space < d:
        raise InputError(f"axis_clusters: ambient={space} is smaller than d={d}; leave it out, or raise it.")
    length = math.sqrt(d) if norm is None else norm
    centres = length * torch.eye(k, d, dtype=torch.float64)
    data = d_binary(n=n, d=d, k=k, balance=half / (k - half), sigma=sigma, centres=centres, seed=seed)
    padding = (0, space - d)
    wider = {key: torch.nn.functional.pad(data.details[key], padding) for key in ("centres", "noise")}
    return data.with_content(
        x=torch.nn.functional.pad(data.x, padding), name="axis-clusters", details={**data.details, **wider}
    )
