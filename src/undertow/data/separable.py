"""Two classes that a plane through the origin separates, with a margin: where gradient descent finds the SVM."""

from __future__ import annotations

import math
from typing import Literal

import torch

from undertow.core.errors import InputError
from undertow.core.sections import Count, NonNegative, Positive
from undertow.data.data_section import DrawnData
from undertow.data.dataset import Dataset
from undertow.data.drawing import cpu_generator, require_positive

__all__ = ["SeparableData", "separable"]


class SeparableData(DrawnData):
    """Points on both sides of a plane through the origin, at least ``margin`` away from it; see :func:`separable`."""

    name: Literal["separable"]
    n: Count = 40
    d: Count = 2
    margin: Positive = 0.5
    spread: NonNegative = 1.0
    depth: NonNegative = 1.0

    def draw(self, n: int, seed: int, *, like: Dataset | None) -> Dataset:
        direction = None if like is None else like.details["direction"]
        return separable(
            n=n,
            d=self.d,
            margin=self.margin,
            spread=self.spread,
            depth=self.depth,
            direction=direction,
            seed=seed,
        )

    def least_shape(self) -> tuple[int, int]:
        return self.n, self.d


def separable(
    *,
    n: int,
    d: int = 2,
    margin: float = 0.5,
    spread: float = 1.0,
    depth: float = 1.0,
    direction: torch.Tensor | None = None,
    seed: int = 0,
    generator: torch.Generator | None = None,
) -> Dataset:
    """x = y (γ + h) u + z with y = ±1, h exponential of mean ``depth``, and z ~ N(0, σ² (I − uuᵀ)), σ = ``spread``/√d.

    u is a uniform direction, γ the ``margin`` of u itself: ⟨u, yx⟩ ≥ γ for every point, so that the data are separable
    through the origin whatever n and d. The support vector machine's margin is at least γ, and its direction tilts away
    from u towards the points at hand, which is what there is to find. Since σ does not grow with d, points along and
    across u have comparable lengths, and the support vectors are well-conditioned.

    Labels are 1 for y = +1 and 0 for y = −1, equally many up to one. ``details["direction"]`` is u, which ``direction``
    sets. ``generator``, a CPU one, replaces ``seed``.

    >>> data = separable(n=100, d=3, margin=0.5)
    >>> signs = 2 * data.y - 1
    >>> bool(((data.x @ data.details["direction"].float()) * signs >= 0.4999).all()), int(signs.sum())
    (True, 0)
    """
    require_positive("separable", n=n - 1, d=d)
    for name, value in {"margin": margin, "spread": spread, "depth": depth}.items():
        if not (0 <= value < math.inf) or (name == "margin" and value == 0):
            raise InputError(f"separable: {name}={value} must be a finite number, positive for the margin.")
    draw = cpu_generator(seed, generator)
    drawn = torch.randn(d, generator=draw, dtype=torch.float64)
    u = (drawn if direction is None else direction.double()) / (
        drawn if direction is None else direction
    ).norm()
    if u.shape != (d,):
        raise InputError(f"separable: direction has shape {tuple(u.shape)}, and d is {d}.")
    y = torch.arange(n) % 2
    heights = margin - depth * torch.log1p(-torch.rand(n, generator=draw, dtype=torch.float64))
    across = torch.randn(n, d, generator=draw, dtype=torch.float64) * (spread / math.sqrt(d))
    across -= (across @ u)[:, None] * u
    x = (2 * y - 1)[:, None] * heights[:, None] * u + across
    return Dataset.of(x.float(), y, name="separable", classes=2, details={"direction": u})
