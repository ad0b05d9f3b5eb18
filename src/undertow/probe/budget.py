"""A price for measuring: at most a share of the time that training takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from undertow.core.errors import InputError

__all__ = ["Budget", "Cost"]

_FEWEST = 8  # points below which a mean over them says little
_FIXED = 0.2  # of a cost is taken to be there whatever the number of points, until two numbers have been seen


@dataclass(frozen=True)
class Cost:
    """What a measure took the last time: so many seconds on so many points."""

    points: int
    seconds: float


@dataclass
class Budget:
    """Seconds that may be spent on measuring: ``share`` of what training has taken so far, less what was spent.

    Before each reading it chooses how many points fit: all of them, or half, a quarter, … down to eight. Where not even
    those fit, the reading waits for the next moment that the schedule names. The first reading, whose cost nobody
    knows, is on eight points. What a reading takes is learnt from the ones before it.

    >>> clock = iter([0.0, 100.0, 100.0, 101.0, 200.0]).__next__
    >>> budget = Budget(0.05, clock=clock)
    >>> budget.points("energy", 64)     # after 100 s of training; the first reading is a small one
    8
    >>> with budget.spending("energy", 8):  # it takes a second
    ...     pass
    >>> budget.points("energy", 64)     # 199 s of training allow 9.95 s, of which 8.95 s are left
    64
    """

    share: float
    clock: Callable[[], float] = time.perf_counter
    spent: float = 0.0
    costs: dict[str, Cost] = field(default_factory=dict)
    _slopes: dict[str, float] = field(default_factory=dict)
    _begun: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.share, bool) or not 0 < self.share < 1:
            raise InputError(f"budget = {self.share!r}: give a share of training time, such as 0.05.")
        self._begun = self.clock()

    @property
    def left(self) -> float:
        """Seconds that may be spent now."""
        training = self.clock() - (self._begun or 0.0) - self.spent
        return self.share * training - self.spent

    def points(
        self, measure: str, count: int, *, fewest: int | None = None, must: bool = False
    ) -> int | None:
        """How many of ``count`` points the next reading is on; None where it has to wait, unless it ``must`` be."""
        fewest = min(_FEWEST, count) if fewest is None else fewest
        left = self.left
        if measure not in self.costs:
            return fewest
        choice = count
        while choice > fewest and self.expected(measure, choice) > left:
            choice = max(fewest, choice // 2)
        return choice if must or self.expected(measure, choice) <= left else None

    def expected(self, measure: str, points: int) -> float:
        """Seconds that a reading on so many points will take, as far as is known."""
        known = self.costs[measure]
        slope = self._slopes.get(measure, (1 - _FIXED) * known.seconds / known.points)
        return max(known.seconds + slope * (points - known.points), _FIXED * known.seconds)

    @contextmanager
    def spending(self, measure: str, points: int) -> Iterator[None]:
        """Time what is done within, a GPU's work included."""
        begun = self._now()
        try:
            yield
        finally:
            seconds = self._now() - begun
            self.spent += seconds
            before = self.costs.get(measure)
            if before is not None and before.points != points:
                self._slopes[measure] = max(0.0, (seconds - before.seconds) / (points - before.points))
            self.costs[measure] = Cost(points, seconds)

    def _now(self) -> float:
        if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
        return self.clock()
