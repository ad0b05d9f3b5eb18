"""Points that all have the same cosine with each other: from orthogonal to one direction, in one number."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator

from undertow.core.errors import InputError
from undertow.core.sections import Count, Positive
from undertow.data.data_section import DrawnData, Split
from undertow.data.dataset import Dataset
from undertow.data.drawing import cpu_generator, require_positive

__all__ = ["EqualCosinesData", "equal_cosines"]


class EqualCosinesData(DrawnData):
    """n points of one norm, all pairs with one cosine, the first ``positive`` of class 1: those trained on."""

    name: Literal["equal-cosines"]
    n: Count = 10
    d: Count = 100
    positive: Count = 5
    cosine: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.0
    norm: Positive = 10.0

    @model_validator(mode="after")
    def _fits(self) -> EqualCosinesData:
        if self.n >= self.d or self.positive >= self.n:
            raise ValueError("equal-cosines needs d above n, and points of both classes: positive below n")
        return self

    def draw(self, n: int, seed: int, *, like: Dataset | None) -> Dataset:  # noqa: ARG002
        return equal_cosines(
            n=n, d=self.d, positive=self.positive, cosine=self.cosine, norm=self.norm, seed=seed
        )

    def check_split(self, split: Split | None) -> None:
        if split is not None:
            raise ValueError(f"{self.name} has no splits: leave probe.split out")

    def least_shape(self) -> tuple[int, int]:
        return self.d, self.d


def equal_cosines(
    *,
    n: int = 10,
    d: int = 100,
    positive: int = 5,
    cosine: float = 0.0,
    norm: float = 10.0,
    seed: int = 0,
    generator: torch.Generator | None = None,
) -> Dataset:
    """x_i = ℓ (√(1−c) q_i + √c q₀) with q₀, …, q_n orthonormal in a random position, c = ``cosine``, ℓ = ``norm``.

    All norms are ℓ and all inner products cℓ²: min ‖x_i‖²/(n max|⟨x_i, x_k⟩|) = 1/(n c), which goes from infinity
    (orthogonal) to 1/n (one direction) with nothing else changed. The first ``positive`` points have label 1, others 0.

    >>> data = equal_cosines(n=4, d=9, positive=2, cosine=0.25, norm=3.0)
    >>> gram = data.x.double() @ data.x.double().T
    >>> [round(float(value), 4) for value in gram[0]], data.y.tolist()
    ([9.0, 2.25, 2.25, 2.25], [1, 1, 0, 0])
    """
    require_positive("equal_cosines", n=n, d=d, positive=positive)
    if not 0 <= cosine < 1 or n >= d or positive >= n:
        raise InputError(
            f"equal_cosines: {n} points ({positive} of them positive) with cosine {cosine:g} in {d} dimensions "
            "are not there; take 0 ≤ cosine < 1, positive < n < d."
        )
    draw = cpu_generator(seed, generator)
    basis = torch.linalg.qr(torch.randn(d, n + 1, generator=draw, dtype=torch.float64)).Q.T
    x = norm * (math.sqrt(1 - cosine) * basis[1:] + math.sqrt(cosine) * basis[:1])
    y = (torch.arange(n) < positive).long()
    return Dataset.of(x.float(), y, name="equal-cosines", classes=2)
