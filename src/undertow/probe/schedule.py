"""When a probe measures: every epoch, every k steps, or at geometrically spaced steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from undertow.errors import InputError, nearest

__all__ = ["Every", "Schedule"]

Every = Literal["epoch", "log"] | int


@dataclass(frozen=True)
class Schedule:
    """Which steps are due. Step 0, before any training, always is.

    ``"epoch"``: the last step of every epoch. An integer k: every k-th step. ``"log"``: the steps
    ⌊2^(j/4)⌋, four to each doubling, so that a long training and its first moments are both seen.

    >>> Schedule("log").upto(20)
    [0, 1, 2, 3, 4, 5, 6, 8, 9, 11, 13, 16, 19]
    >>> Schedule(3).upto(10)
    [0, 3, 6, 9]
    >>> Schedule("epoch", steps_per_epoch=4).upto(9)
    [0, 4, 8]
    """

    every: Every
    steps_per_epoch: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.every, str):
            if self.every not in ("epoch", "log"):
                hint = nearest(self.every, ("epoch", "log"))
                raise InputError(f"every = {self.every!r} is no schedule; {hint} Or give a number of steps.")
        elif isinstance(self.every, bool) or self.every < 1:
            raise InputError(f"every = {self.every!r}: give 'epoch', 'log' or a number of steps, 1 or more.")
        if self.steps_per_epoch < 1:
            raise InputError(f"steps_per_epoch = {self.steps_per_epoch!r}: an epoch has at least one step.")

    def due(self, step: int) -> bool:
        """Whether ``step`` (completed steps so far) is measured."""
        return step == 0 or self.next(step - 1) == step

    def next(self, step: int) -> int:
        """The first due step after ``step``."""
        if self.every == "log":
            # The first j with ⌊2^(j/4)⌋ > step has 2^j ≥ (step + 1)^4; two integer roots undo it exactly.
            j = ((step + 1) ** 4 - 1).bit_length()
            return math.isqrt(math.isqrt(1 << j))
        stride = self.steps_per_epoch if self.every == "epoch" else self.every
        return (step // stride + 1) * stride

    def upto(self, last: int) -> list[int]:
        """Every due step from 0 to ``last``."""
        steps = [0]
        while (later := self.next(steps[-1])) <= last:
            steps.append(later)
        return steps
