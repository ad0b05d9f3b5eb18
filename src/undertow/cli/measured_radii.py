"""Radii of one network within a time: attacked first, which is quick, and proved with what is left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from undertow.adversary.robustness import Robustness, robustness
from undertow.cli.samples import Samples
from undertow.core.deadline import Deadline, TimeUp
from undertow.core.enclosing import rows_of
from undertow.jacobian.preconditions import prepare

__all__ = ["attacked_within", "finite", "proved_within", "radii_told"]


def attacked_within(net: nn.Module, given: Samples, y: Tensor, *, seconds: float) -> list[Robustness]:
    """Fast attacks and estimates, without a proof, on as many samples as the time allows."""
    f, points = prepare(net, given.x, None, **given.options)
    apart = rows_of(f, slice(0, 1)) is not f  # samples have rows of their own, and are attacked one by one

    def attack(part: slice) -> Robustness:
        own = rows_of(f, part)  # a function's operations are not looked into, so that nothing is proved
        return robustness(lambda inputs: own(inputs), points[part], y[part], attack="fast")

    return _one_then_others(attack, len(given), seconds, most=1 if apart else len(given))


def proved_within(net: nn.Module, given: Samples, y: Tensor, *, seconds: float) -> list[Robustness]:
    """Brackets from both sides of as many samples as the time allows: the first ones, or none.

    Where the first takes more than a third of it, few others would follow, and it is given up.
    """

    def bracket(part: slice) -> Robustness:
        own = given.part(part)
        return robustness(net, own.x, y[part], shorten=False, **own.options)

    return _one_then_others(bracket, len(given), seconds, most=len(given), first=seconds / 3)


def _one_then_others(
    work: Callable[[slice], Robustness], count: int, seconds: float, *, most: int, first: float = math.inf
) -> list[Robustness]:
    """The first sample by itself, to learn what the others will take; these at once, or at ``most`` so many."""
    begun, found = time.perf_counter(), list[Robustness]()
    with suppress(TimeUp), Deadline(seconds):
        with Deadline(min(first, seconds)):
            found.append(work(slice(0, 1)))
        each = max(time.perf_counter() - begun, 1e-6)
        end = 1 + min(count - 1, int((seconds - each) / each))
        for begin in range(1, end, most):
            found.append(work(slice(begin, min(begin + most, end))))
    return found


def radii_told(
    attacked: Sequence[Robustness], proved: Sequence[Robustness], *, asked: int
) -> dict[str, float | int | None] | None:
    """What all samples have; both sides of one that was proved come from there. None where there is no sample."""
    if not attacked and not proved:
        return None
    known = sum(len(each.attacked) for each in proved)

    def every(name: str) -> Tensor:
        without = [getattr(each, name) for each in attacked] or [torch.zeros(0)]
        return torch.cat([*(getattr(each, name) for each in proved), torch.cat(without)[known:]])

    return {
        "samples": len(every("attacked")),
        "asked": asked,
        "attacked_median": finite(every("attacked").median()),
        "attacked_smallest": finite(every("attacked").min()),
        "certified_median": finite(every("certified").median()),
        "share_proved": float(every("proved").double().mean()),
        "estimate_median": finite(every("estimate").median()),
    }


def finite(number: Any) -> float | None:
    """A number for JSON, which has no infinity."""
    return float(number) if math.isfinite(float(number)) else None
