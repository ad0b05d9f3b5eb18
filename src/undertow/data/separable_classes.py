"""Several classes that a linear network without biases separates, with a margin."""

from __future__ import annotations

import math
from typing import Literal

import torch

from undertow.core.errors import InputError
from undertow.core.sections import Count, NonNegative, Positive
from undertow.data.data_section import DrawnData
from undertow.data.dataset import Dataset
from undertow.data.drawing import cpu_generator, require_positive

__all__ = ["SeparableClassesData", "separable_classes"]


class SeparableClassesData(DrawnData):
    """One direction for each class, and noise across all of them; see :func:`separable_classes`."""

    name: Literal["separable-classes"]
    n: Count = 40
    d: Count = 10
    classes: Count = 4
    margin: Positive = 0.5
    spread: NonNegative = 1.0
    depth: NonNegative = 1.0

    def draw(self, n: int, seed: int, *, like: Dataset | None) -> Dataset:
        directions = None if like is None else like.details["directions"]
        return separable_classes(
            n=n,
            d=self.d,
            classes=self.classes,
            margin=self.margin,
            spread=self.spread,
            depth=self.depth,
            directions=directions,
            seed=seed,
        )

    def least_shape(self) -> tuple[int, int]:
        return self.n, self.d


def separable_classes(
    *,
    n: int,
    d: int = 10,
    classes: int = 4,
    margin: float = 0.5,
    spread: float = 1.0,
    depth: float = 1.0,
    directions: torch.Tensor | None = None,
    seed: int = 0,
    generator: torch.Generator | None = None,
) -> Dataset:
    """x = (γ + h) u_y + z, with orthonormal u_0 … u_{k−1}, h exponential, and z normal across all of them.

    h has mean ``depth``, z the standard deviation ``spread``/√d in every direction. The network with rows u_c has
    s_y − s_j = γ + h for every rival j, so that the data are separable through the origin with a margin of at least γ,
    whatever n and d ≥ k. It is ``separable`` for more than two classes.

    Args:
        n: Points, as equally many of each class as can be.
        d: Inputs, at least as many as classes.
        classes: k.
        margin: γ.
        spread: √d σ.
        depth: Mean of h; 0 puts all points of a class at height γ.
        directions: u (k, d), where others than the drawn ones are wanted: ``details["directions"]`` of another draw.
        seed: Of the draw.
        generator: A CPU one, in place of ``seed``.

    >>> data = separable_classes(n=12, d=6, classes=3)
    >>> scores = data.x.double() @ data.details["directions"].T
    >>> gaps = scores[range(12), data.y][:, None] - scores
    >>> bool((gaps.sort(1).values[:, 1] >= 0.4999).all()), data.y.tolist()[:4]
    (True, [0, 1, 2, 0])
    """
    require_positive("separable_classes", n=n - 1, d=d, classes=classes - 1)
    for name, value in {"margin": margin, "spread": spread, "depth": depth}.items():
        if not (0 <= value < math.inf) or (name == "margin" and value == 0):
            raise InputError(
                f"separable_classes: {name}={value} must be a finite number, positive for the margin."
            )
    if d < classes:
        raise InputError(
            f"separable_classes: {classes} classes need as many dimensions at least, and d is {d}."
        )
    draw = cpu_generator(seed, generator)
    drawn = torch.linalg.qr(torch.randn(d, classes, generator=draw, dtype=torch.float64)).Q.T
    u = drawn if directions is None else directions.double()
    if u.shape != (classes, d):
        raise InputError(f"separable_classes: directions have shape {tuple(u.shape)}, not {(classes, d)}.")
    y = torch.arange(n) % classes
    heights = margin - depth * torch.log1p(-torch.rand(n, generator=draw, dtype=torch.float64))
    across = torch.randn(n, d, generator=draw, dtype=torch.float64) * (spread / math.sqrt(d))
    across -= across @ u.T @ u
    x = heights[:, None] * u[y] + across
    return Dataset.of(x.float(), y, name="separable-classes", classes=classes, details={"directions": u})
