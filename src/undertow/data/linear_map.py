"""A linear map seen at a few points: what deep linear networks learn (Cohen et al. 2021, Appendix)."""

from __future__ import annotations

from typing import Literal

import torch

from undertow.core.sections import Count
from undertow.data.data_section import DrawnData
from undertow.data.dataset import Dataset
from undertow.data.drawing import cpu_generator, require_positive

__all__ = ["LinearMapData", "linear_map"]


class LinearMapData(DrawnData):
    """Points and their images under a random matrix; see :func:`linear_map`."""

    name: Literal["linear-map"]
    n: Count = 50
    d: Count = 50

    def draw(self, n: int, seed: int, *, like: Dataset | None) -> Dataset:
        return linear_map(n=n, d=self.d, seed=seed, matrix=None if like is None else like.details["matrix"])

    def least_shape(self) -> tuple[int, int]:
        return self.n, self.d


def linear_map(*, n: int = 50, d: int = 50, seed: int = 0, matrix: torch.Tensor | None = None) -> Dataset:
    """Targets A x with A_ij ~ N(0, 1/d), at n points x whose second moment (1/n) Σ x xᵀ is whitened: σ² = 1 or 0.

    Whitened inputs make the end-to-end matrix the only thing that is learned. ``matrix`` is A where it is known.

    >>> data = linear_map(n=4, d=2)
    >>> torch.allclose(data.x.T @ data.x / 4, torch.eye(2), atol=1e-5), data.labels.shape
    (True, torch.Size([4, 2]))
    """
    require_positive("linear-map", n=n, d=d)
    draw = cpu_generator(seed, None)
    raw = torch.randn(n, d, generator=draw, dtype=torch.float64)
    drawn = torch.randn(d, d, generator=draw, dtype=torch.float64) / d**0.5
    A = drawn if matrix is None else matrix.double()
    left, _, right = torch.linalg.svd(raw, full_matrices=False)
    x = n**0.5 * left @ right
    return Dataset.of_targets(x.float(), (x @ A.T).float(), name="linear-map", details={"matrix": A})
