"""What attacks cost, known before they run: passes from their entries, seconds from a few timed passes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.attacks.entry import FEW
from undertow.adversary.attacks.objectives import gradient
from undertow.adversary.attacks.registry import ATTACKS
from undertow.adversary.attacks.search import Search
from undertow.adversary.scorer import margins_of

__all__ = ["AttackCost", "Pace", "expected"]


@dataclass(frozen=True)
class AttackCost:
    """The most that attacks will ask of the networks: an input of one network is one pass.

    Samples that are broken leave early, and certificates spare others. Square is counted on the few samples on which
    it is tried first; where it breaks one of these, it goes on to all. ``seconds`` comes from a few timed passes.
    """

    forward: int
    backward: int
    seconds: float

    def __str__(self) -> str:
        passes = f"{self.forward:,} forward and {self.backward:,} backward passes"
        return f"at most {passes}, about {_duration(self.seconds)}"


@dataclass(frozen=True)
class Pace:
    """Seconds for one forward pass among many samples, for one backward pass, and for one forward pass among few."""

    forward: float
    backward: float
    few: float

    @classmethod
    def of(cls, search: Search, *, repeats: int = 2) -> Pace:
        """Timed on the samples themselves, if any is to be attacked; the passes are not counted."""
        if search.standing == 0:
            return cls(0.0, 0.0, 0.0)
        before = vars(search.scorer.passes).copy()
        many, few = min(search.chunk, len(search.x)), min(FEW, len(search.x))
        with torch.no_grad():
            forward = _timed(search, many, lambda x, _: search.scorer(x), repeats)
            small = _timed(search, few, lambda x, _: search.scorer(x), repeats)
        both = _timed(
            search, many, lambda x, y: gradient(search.scorer, x, lambda s: margins_of(s, y)), repeats
        )
        vars(search.scorer.passes).update(before)
        return cls(forward, max(both - forward, 0.0), small)

    def cost(self, passes: dict[str, tuple[int, int]]) -> AttackCost:
        """The sum over attacks, with the time that it takes."""
        forward, backward = (sum(each[side] for each in passes.values()) for side in (0, 1))
        seconds = sum(
            there * (self.few if ATTACKS[name].few_first else self.forward) + back * self.backward
            for name, (there, back) in passes.items()
        )
        return AttackCost(forward, backward, seconds)


def expected(
    names: Sequence[str], radii: int, samples: int, classes: int, *, members: int = 1
) -> dict[str, tuple[int, int]]:
    """Attack → forward and backward passes at most, for so many ``samples`` of all members at so many ``radii``.

    >>> expected(["apgd-ce", "fast"], 2, 10, 2)
    {'apgd-ce': (2020, 2020), 'fast': (510, 430)}
    """
    found: dict[str, tuple[int, int]] = {}
    for name in dict.fromkeys(names):
        entry = ATTACKS[name]
        times = 1 if entry.minimal else names.count(name) * radii
        many = min(samples, FEW * members) if entry.few_first else samples
        forward, backward = entry.passes(classes)
        found[name] = (times * many * forward, times * many * backward)
    return found


def _timed(search: Search, samples: int, passed: Callable[[Tensor, Tensor], object], repeats: int) -> float:
    """Seconds for each input of one network, the first call left out."""
    x = search.x[:samples].expand(search.scorer.members, -1, -1)
    y = search.y[:samples].expand(search.scorer.members, -1)
    began = 0.0
    for repeat in range(repeats + 1):
        if repeat == 1:
            began = _now(x)
        passed(x, y)
    return (_now(x) - began) / (repeats * x.shape[0] * x.shape[1])


def _now(x: Tensor) -> float:
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
    return time.perf_counter()


def _duration(seconds: float) -> str:
    """
    >>> [_duration(seconds) for seconds in (0.3, 42, 600, 9000)]
    ['1 s', '42 s', '10 min', '2.5 h']
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
