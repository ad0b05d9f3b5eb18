"""When a measure is taken: by epochs, steps, decades of the loss or of the time, or at the ends alone."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from undertow.core.errors import InputError, nearest

__all__ = ["LEVELS", "Every", "Schedule"]

Every = Literal["epoch", "log", "doublings", "ends", "end"] | int | str
_WORDS = ("epoch", "log", "doublings", "ends", "end", "decade")
_NUMBER = r"\d{1,4}(?:\.\d{1,4})?"
LEVELS = rf"^(?:({_NUMBER}) |at ({_NUMBER}(?:, {_NUMBER}){{0,99}}) )?(time-)?decades?$"
_LOOKS = 8  # steps, at least, between two looks at the loss
_NEVER = 2**62


@dataclass(frozen=True)
class Schedule:
    """Which steps are due. The last step of training always is; step 0, before it, is except for ``"end"``.

    ``"epoch"``: the last step of every epoch. An integer k: every k-th step. ``"log"``: the steps
    ⌊2^(j/4)⌋, four to each doubling, so that a long training and its first moments are both seen; ``"doublings"``: one
    to each. ``"ends"``: before training and after it. ``"end"``: after it alone. When training is over, no schedule can
    know: whoever runs it says so.

    ``"decade"``, ``"10 decades"``: whenever the training loss has passed the next power of ten, or the tenth; and
    ``"0.5 time-decades"``: the same of t = Σ η. Steps alone do not tell that, so whoever trains asks ``passed`` after
    every epoch (where these are short, every eighth step or so), which ``next`` gives. ``"at 10, 15.12 decades"``: when
    the loss has passed 10^-10 and 10^-15.12, and not before training.

    >>> Schedule("log").upto(20)
    [0, 1, 2, 3, 4, 5, 6, 8, 9, 11, 13, 16, 19]
    >>> Schedule("doublings").upto(20)
    [0, 1, 2, 4, 8, 16]
    >>> Schedule(3).upto(10)
    [0, 3, 6, 9]
    >>> Schedule("epoch", steps_per_epoch=4).upto(9)
    [0, 4, 8]
    >>> Schedule("ends").upto(9), Schedule("end").upto(9)
    ([0], [])
    >>> Schedule("10 decades").level, Schedule("10 decades").passed(-19.9, -20.3)
    ('loss', True)
    >>> Schedule("at 5, 12.5 decades").passed(-5.1, -12.4), Schedule("at 5, 12.5 decades").passed(-5.1, -12.6)
    (False, True)
    """

    every: Every
    steps_per_epoch: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.every, str):
            if self.every not in _WORDS and self.level is None:
                hint = nearest(self.every, _WORDS)
                raise InputError(f"every = {self.every!r} is no schedule; {hint} Or give a number of steps.")
        elif not isinstance(self.every, int) or isinstance(self.every, bool) or self.every < 1:
            words = ", ".join(map(repr, _WORDS))
            raise InputError(f"every = {self.every!r}: give {words} or a number of steps, 1 or more.")
        if self.steps_per_epoch < 1:
            raise InputError(f"steps_per_epoch = {self.steps_per_epoch!r}: an epoch has at least one step.")

    @property
    def level(self) -> Literal["loss", "time"] | None:
        """What is measured by decades of what; None where steps decide."""
        return None if self._levels is None else self._levels.of

    @property
    def _levels(self) -> _Levels | None:
        return _levels(self.every) if isinstance(self.every, str) else None

    def passed(self, before: float, now: float) -> bool:
        """Whether between two decimal logarithms, of the loss or of t, a level lies that is to be measured.

        ``before`` is infinite where nothing has been measured yet.
        """
        levels = self._levels
        if levels is None or math.isnan(now) or now == before:
            return False
        if math.isinf(before) and not levels.listed:
            return math.isfinite(now)
        return levels.above(now) > (0 if math.isinf(before) else levels.above(before))

    def due(self, step: int) -> bool:
        """Whether ``step`` (completed steps so far) is measured; at decades, for step 0 alone."""
        if self._levels is not None:
            return step == 0 and not self._levels.listed
        return self.every != "end" if step == 0 else self.next(step - 1) == step

    def next(self, step: int) -> int:
        """The first due step after ``step``; beyond any training where only its end is."""
        if self.every in ("ends", "end"):
            return _NEVER
        if self.every == "doublings":
            return 1 << step.bit_length()
        if self.every == "log":
            # The first j with ⌊2^(j/4)⌋ > step has 2^j ≥ (step + 1)^4; two integer roots undo it exactly.
            j = ((step + 1) ** 4 - 1).bit_length()
            return math.isqrt(math.isqrt(1 << j))
        stride = self.every if isinstance(self.every, int) else self.steps_per_epoch
        if self.level is not None:
            stride *= -(-_LOOKS // stride)
        return (step // stride + 1) * stride

    def upto(self, last: int) -> list[int]:
        """Every due step from 0 to ``last``, the end of training not counted."""
        steps = [0] if self.due(0) else []
        if self.level is not None:
            return steps
        step = 0
        while (step := self.next(step)) <= last:
            steps.append(step)
        return steps


@dataclass(frozen=True)
class _Levels:
    """Levels of the loss or of t: every so many decades, or those that are listed."""

    of: Literal["loss", "time"]
    decades: float
    listed: tuple[float, ...]

    def above(self, logarithm: float) -> int:
        """How many levels are passed at this decimal logarithm, counted from one that does not matter."""
        depth = -logarithm if self.of == "loss" else logarithm
        if self.listed:
            return sum(level <= depth for level in self.listed)
        return math.floor(depth / self.decades)


@lru_cache
def _levels(every: str) -> _Levels | None:
    """What the word says: asked for every network after every epoch, and read once."""
    found = re.match(LEVELS, every)
    if found is None or (found[1] is not None and float(found[1]) == 0):
        return None
    listed = tuple(map(float, found[2].split(", "))) if found[2] else ()
    return _Levels("time" if found[3] else "loss", float(found[1] or 1), listed)
