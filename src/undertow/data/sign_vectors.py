"""Points whose coordinates all have one size: where Adam with single samples does not see the largest ones."""

from __future__ import annotations

import math
from typing import Literal

import torch

from undertow.core.errors import InputError
from undertow.core.sections import Count, NonNegative
from undertow.data.data_section import DrawnData
from undertow.data.dataset import Dataset
from undertow.data.drawing import cpu_generator, require_positive

__all__ = ["SignVectorsData", "sign_vectors"]


class SignVectorsData(DrawnData):
    """Multiples of vectors of signs; see :func:`sign_vectors`."""

    name: Literal["sign-vectors"]
    n: Count = 10
    d: Count = 10
    spread: NonNegative = 1.0

    def draw(self, n: int, seed: int, *, like: Dataset | None) -> Dataset:  # noqa: ARG002
        return sign_vectors(n=n, d=self.d, spread=self.spread, seed=seed)

    def least_shape(self) -> tuple[int, int]:
        return self.n, self.d


def sign_vectors(
    *,
    n: int,
    d: int = 10,
    spread: float = 1.0,
    seed: int = 0,
    generator: torch.Generator | None = None,
) -> Dataset:
    """x_i = a_i s_i with signs s_i in {−1, 1}^d, s_i1 = y_i, a_i = e^(σh), h ~ U(0, 1), σ = ``spread``.

    Every |x_ij| of a point is the same, so that g²  of one sample's gradient is the same in every coordinate, and Adam
    with batches of one has nothing to divide by: on such data it is proved to go to the L2 margin as β₂ → 1 (Baek et
    al. 2025, generalised Rademacher data). The first coordinate alone separates the classes, with margin 1 or more.

    >>> data = sign_vectors(n=4, d=6)
    >>> bool((data.x.abs() == data.x.abs()[:, :1]).all()), bool(((data.x[:, 0] > 0) == (data.y == 1)).all())
    (True, True)
    """
    require_positive("sign_vectors", n=n - 1, d=d)
    if not 0 <= spread < math.inf:
        raise InputError(f"sign_vectors: spread={spread} must be a finite number, not negative.")
    draw = cpu_generator(seed, generator)
    y = torch.arange(n) % 2
    signs = torch.randint(0, 2, (n, d), generator=draw).double() * 2 - 1
    signs[:, 0] = 2 * y - 1
    sizes = torch.exp(spread * torch.rand(n, generator=draw, dtype=torch.float64))
    return Dataset.of((sizes[:, None] * signs).float(), y, name="sign-vectors", classes=2, details={})
