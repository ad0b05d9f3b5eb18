"""Curves that are convex, concave or straight between known points, and those that are straight between all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Curve", "Function", "clamped", "leaky", "number", "straight"]

Function = Callable[[Tensor], Tensor]
_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class Curve:
    """f with its slope; pieces (−∞, b₁], [b₁, b₂], …, [b_n, ∞) bend up (+1), down (−1) or not at all (0).

    ``ends`` are the slopes left and right of each break, where they are not the value of ``slope`` there: a kink.
    ``error`` bounds |computed − true| value between two limits; None for straight curves, which are only products.
    ``root`` gives h with f'(h) = a on the one convex piece, up to rounding, where there is a formula.
    """

    value: Function
    slope: Function
    breaks: tuple[float, ...]
    bends: tuple[int, ...]
    error: Callable[[Tensor, Tensor], Tensor] | None = None
    ends: tuple[tuple[Tensor, Tensor], ...] | None = None
    homogeneous: bool = False
    root: Function | None = None
    domain: float = -math.inf
    """f is defined above this alone: limits of its input are proved to lie there, or there is no bound."""
    slope_error: float = 64 * _EPS
    """How much a slope can differ from that of f as it is executed, where there is an ``error``."""

    @property
    def straight(self) -> bool:
        return not any(self.bends)


def straight(slopes: list[Tensor], breaks: tuple[float, ...], at_breaks: list[Tensor]) -> Curve:
    """The continuous curve with these slopes between the breaks and these values at them."""

    def pick(h: Tensor, values: list[Tensor]) -> Tensor:
        found = values[0].to(h).expand_as(h)
        for place, value in zip(breaks, values[1:], strict=True):
            found = torch.where(h > place, value.to(h), found)
        return found

    def value(h: Tensor) -> Tensor:
        found = at_breaks[0].to(h) + slopes[0].to(h) * (h - breaks[0])
        for index, place in enumerate(breaks):
            right = at_breaks[index].to(h) + slopes[index + 1].to(h) * (h - place)
            found = torch.where(h > place, right, found)
        return found

    at_zero = max(float(part.abs().max()) for part in at_breaks)
    return Curve(
        value=value,
        slope=lambda h: pick(h, slopes),
        breaks=breaks,
        bends=(0,) * len(slopes),
        ends=tuple((slopes[i], slopes[i + 1]) for i in range(len(breaks))),
        homogeneous=breaks == (0.0,) and at_zero == 0,
    )


def leaky(negative: Tensor, positive: Tensor | None = None) -> Curve:
    one = torch.ones_like(negative) if positive is None else positive
    return straight([negative, one], (0.0,), [torch.zeros_like(negative)])


def clamped(low: float, high: float) -> Curve:
    zero, one, low = (
        number(0.0),
        number(1.0),
        min(low, high),
    )  # torch gives the upper end where they are the wrong way round
    if math.isinf(low) and math.isinf(high):
        return leaky(one)
    if math.isinf(high):
        return straight([zero, one], (low,), [number(low)])
    if math.isinf(low):
        return straight([one, zero], (high,), [number(high)])
    return straight([zero, one, zero], (low, high), [number(low), number(high)])


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)
