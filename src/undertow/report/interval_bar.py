"""A finding as a small bar: interval, effect and line on one scale for all variants of a claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Bar", "Evidence", "bars"]

_WIDTH = 120.0
_MARGIN = 6.0


@dataclass(frozen=True)
class Evidence:
    """What a bar shows: the effect, its interval, and the line that the claim is about, where known."""

    effect: float | None
    interval: tuple[float, float] | None
    line: float | None = None


@dataclass(frozen=True)
class Bar:
    """Places on a bar 120 wide; None where there is nothing to mark."""

    effect: float
    low: float | None
    width: float | None
    line: float | None


def bars(found: Sequence[Evidence]) -> list[Bar | None]:
    """A bar for each finding that has an effect, all on the same scale.

    >>> bars([Evidence(0.5, (0.0, 1.0)), Evidence(None, None)])
    [Bar(effect=60.0, low=6.0, width=108.0, line=None), None]
    """
    numbers = [number for each in found for number in (each.effect, *(each.interval or ()), each.line)]
    finite = [number for number in numbers if number is not None and math.isfinite(number)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    span = high - low

    def place(number: float) -> float:
        share = (min(max(number, low), high) - low) / span if span else 0.5
        return round(_MARGIN + share * (_WIDTH - 2 * _MARGIN), 1)

    return [_bar(each, place) for each in found]


def _bar(evidence: Evidence, place: Callable[[float], float]) -> Bar | None:
    if evidence.effect is None or math.isnan(evidence.effect):
        return None
    low = width = None
    if evidence.interval is not None and not any(map(math.isnan, evidence.interval)):
        low, high = (place(end) for end in evidence.interval)
        width = round(max(high - low, 2.0), 1)
    line = None if evidence.line is None else place(evidence.line)
    return Bar(place(evidence.effect), low, width, line)
