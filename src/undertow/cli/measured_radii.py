"""Radii of one network within a time: proved where that is affordable, attacked where it is not."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from undertow.adversary.robustness import Robustness, robustness
from undertow.core.deadline import Deadline, TimeUp
from undertow.jacobian.preconditions import prepare

__all__ = ["finite", "radii_within"]

Say = Callable[[str], None]


def radii_within(
    net: nn.Module, x: Tensor, y: Tensor, *, seconds: float, say: Say
) -> dict[str, float | int | None]:
    """Brackets of as many samples as the time allows, the first one by itself to learn what the others will take.

    Where a proof for one sample takes longer than that, there is none: attacks and estimates alone, which are quick.
    """
    begun = time.perf_counter()
    found: list[Robustness] = []
    try:
        with Deadline(seconds):
            found.append(robustness(net, x[:1], y[:1], shorten=False))
            each = time.perf_counter() - begun
            more = min(len(x) - 1, int((seconds - each) / each))
            if more:
                say(
                    f"radii: the first of {len(x)} samples took {each:.2g} s, {more} more take {more * each:.2g} s."
                )
                found.append(robustness(net, x[1 : 1 + more], y[1 : 1 + more], shorten=False))
    except TimeUp:
        say(f"radii: a proof did not end within {seconds:.3g} s." if not found else "radii: the time is up.")
    if not found:
        found = [_attacked(net, x, y)]
    return _told(found, asked=len(x))


def _attacked(net: nn.Module, x: Tensor, y: Tensor) -> Robustness:
    """Without a proof: a function's operations are not looked into."""
    f, points = prepare(net, x, None)
    return robustness(lambda inputs: f(inputs), points, y, shorten=False)


def _told(found: list[Robustness], *, asked: int) -> dict[str, float | int | None]:
    attacked, certified, estimate, proved = (
        torch.cat([getattr(each, name).flatten() for each in found])
        for name in ("attacked", "certified", "estimate", "proved")
    )
    return {
        "samples": len(attacked),
        "asked": asked,
        "attacked_median": finite(attacked.median()),
        "attacked_smallest": finite(attacked.min()),
        "certified_median": finite(certified.median()),
        "share_proved": float(proved.double().mean()),
        "estimate_median": finite(estimate.median()),
    }


def finite(number: Any) -> float | None:
    """A number for JSON, which has no infinity."""
    return float(number) if math.isfinite(float(number)) else None
