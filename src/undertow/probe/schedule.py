"""When a measure is taken: every epoch, every k steps, at geometrically spaced steps, or at the ends alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from undertow.core.errors import InputError, nearest

__all__ = ["Every", "Schedule"]

Every = Literal["epoch", "log", "ends", "end"] | int
_WORDS = ("epoch", "log", "ends", "end")
_NEVER = 2**62


@dataclass(frozen=True)
class Schedule:
    """Which steps are due. The last step of training always is; step 0, before it, is except for ``"end"``.

    ``"epoch"``: the last step of every epoch. An integer k: every k-th step. ``"log"``: the steps
    ⌊2^(j/4)⌋, four to each doubling, so that a long training and its first moments are both seen. ``"ends"``:
    before training and after it. ``"end"``: after it alone. When training is over, no schedule can know: whoever
    runs it says so.

    >>> Schedule("log").upto(20)
    [0, 1, 2, 3, 4, 5, 6, 8, 9, 11, 13, 16, 19]
    >>> Schedule(3).upto(10)
    [0, 3, 6, 9]
    >>> Schedule("epoch", steps_per_epoch=4).upto(9)
    [0, 4, 8]
    >>> Schedule("ends").upto(9), Schedule("end").upto(9)
    ([0], [])
    """

    every: Every
    steps_per_epoch: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.every, str):
            if self.every not in _WORDS:
                hint = nearest(self.every, _WORDS)
                raise InputError(f"every = {self.every!r} is no schedule; {hint} Or give a number of steps.")
        elif not isinstance(self.every, int) or isinstance(self.every, bool) or self.every < 1:
            words = ", ".join(map(repr, _WORDS))
            raise InputError(f"every = {self.every!r}: give {words} or a number of steps, 1 or more.")
        if self.steps_per_epoch < 1:
            raise InputError(f"steps_per_epoch = {self.steps_per_epoch!r}: an epoch has at least one step.")

    def due(self, step: int) -> bool:
        """Whether ``step`` (completed steps so far) is measured."""
        return self.every != "end" if step == 0 else self.next(step - 1) == step

    def next(self, step: int) -> int:
        """The first due step after ``step``; beyond any training where only its end is."""
        if self.every in ("ends", "end"):
            return _NEVER
        if self.every == "log":
            # The first j with ⌊2^(j/4)⌋ > step has 2^j ≥ (step + 1)^4; two integer roots undo it exactly.
            j = ((step + 1) ** 4 - 1).bit_length()
            return math.isqrt(math.isqrt(1 << j))
        stride = self.every if isinstance(self.every, int) else self.steps_per_epoch
        return (step // stride + 1) * stride

    def upto(self, last: int) -> list[int]:
        """Every due step from 0 to ``last``, the end of training not counted."""
        steps = [0] if self.due(0) else []
        step = 0
        while (step := self.next(step)) <= last:
            steps.append(step)
        return steps
