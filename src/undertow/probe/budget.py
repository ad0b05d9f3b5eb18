"""A price for measuring: at most a share of the time that training takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from undertow.core.errors import InputError
from undertow.probe.cost_curve import CostCurve
from undertow.probe.costs import now

__all__ = ["Budget"]

_FEWEST = 8  # points below which a mean over them says little
_LAST = 2  # points that the last reading may be on
_PILOT = 1  # points that a measure's price is learnt on
_UNKNOWN = 0.1  # seconds that a pilot is taken to cost before the first
_STEPS = 10  # optimiser steps that it is taken to cost, where these are counted


@dataclass
class Budget:
    """Seconds that may be spent on measuring: ``share`` of what training has taken so far, less what was spent.

    What a measure costs nobody knows before its first call. So it is first tried on one point, a *pilot*, when that
    could cost as much as ten steps of the training, a tenth of a second and the dearest pilot so far, and be within the
    share: with 5 %, not before step 200. A first call is slower than others, and much of its price may be the same for
    any number of points: pilots on two and four points follow, each once training has paid for it.

    From then on a reading is taken when what it costs at most (:class:`CostCurve`) has been earned: on all points, or
    half, a quarter, … down to eight; where not even those are paid for, it waits for the next moment that its schedule
    names. At any moment the share is exceeded by no more than a first pilot took beyond what was expected of it, and
    once that is paid for, not at all, as far as costs grow no faster than the points.

    Every measure has an account with an equal part of the share. It may use what others leave, but not what they save
    for a reading of their own: neither does an expensive measure keep cheap ones waiting, nor do they use up
    what it saves.

    >>> now = [0.0]
    >>> budget = Budget(0.05, clock=lambda: now[0])
    >>> budget.points("energy", 64), budget.pilot("energy", 64)      # nothing has been earned
    (None, None)
    >>> now[0] = 100.0
    >>> for seconds in (0.5, 0.25, 0.5):
    ...     with budget.spending("energy", budget.pilot("energy", 64)):
    ...         now[0] += seconds
    >>> budget.points("energy", 64)     # 3.7 s are left, and 16 points take 2 s at most
    16
    """

    share: float
    clock: Callable[[], float] = time.perf_counter
    measures: Sequence[str] = ()
    """Those that will be asked for; others get an account when they first are."""
    steps: int = 0
    """Of the optimiser, so far; 0 where nobody counts them."""
    costs: dict[str, CostCurve] = field(default_factory=dict)
    _spent: dict[str, float] = field(default_factory=dict)
    _most: dict[str, int] = field(default_factory=dict)
    _begun: float = 0.0

    def __post_init__(self) -> None:
        share: object = self.share  # as it came: somebody's "5%" too
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
            raise InputError(f"budget = {self.share!r}: give a share of training time, such as 0.05.")
        self._spent = dict.fromkeys(self.measures, 0.0)
        self._begun = self.clock()

    @property
    def spent(self) -> float:
        """Seconds that went into measuring."""
        return sum(self._spent.values())

    @property
    def left(self) -> float:
        """Seconds that may be spent now; negative while a pilot is being paid for."""
        training = self.clock() - self._begun - self.spent
        return self.share * training - self.spent

    def available(self, measure: str) -> float:
        """Of the seconds left, those that no other measure is saving for a reading on all its points."""
        self._spent.setdefault(measure, 0.0)
        left = self.left
        income = (left + self.spent) / len(self._spent)
        saved = 0.0
        for other in self._spent.keys() - {measure}:
            account = max(0.0, income - self._spent[other])
            known = self.costs.get(other)
            saved += account if known is None else min(account, known.bound(self._most.get(other, 1)))
        return left - saved

    def pilot(self, measure: str, count: int) -> int | None:
        """The points on which a measure's price is learnt now; None where it is known, or has to wait."""
        known = self.costs.get(measure)
        points = _PILOT if known is None else 2 * known.most
        if points >= min(_FEWEST, count):
            return None
        cost = self._unknown() if known is None else known.bound(points)
        return points if self.available(measure) >= cost else None

    def _unknown(self) -> float:
        """What a first call is taken to cost."""
        training = self.clock() - self._begun - self.spent
        pilots = [curve.bound(_PILOT) for curve in self.costs.values()]
        steps = _STEPS * training / self.steps if self.steps else 0.0
        return max(_UNKNOWN, steps, *pilots) / max(1, len(self._spent))

    def points(
        self, measure: str, count: int, *, fewest: int | None = None, last: bool = False
    ) -> int | None:
        """How many of ``count`` points a reading is on now; None where it has to wait.

        ``fewest`` is for a measure that needs so many. The ``last`` reading, for which there is no later moment, has
        everything that is left, and may be on two points.
        """
        self._most[measure] = count
        smallest = min(_LAST, count) if fewest is None else fewest
        fewest = min(_FEWEST, count) if fewest is None else fewest
        available = self.left if last else self.available(measure)
        curve = self.costs.get(measure)
        if curve is None:
            enough = available >= self._unknown() and (last or smallest == fewest)
            return smallest if enough else None
        if 2 * curve.most < fewest and not last:
            return None
        least = smallest if last else curve.aim(fewest, count)
        choice = count
        while choice > least and curve.bound(choice) > available:
            choice = max(least, choice // 2)
        return choice if curve.bound(choice) <= available else None

    @contextmanager
    def spending(self, measure: str, points: int) -> Iterator[None]:
        """Time what is done within, a GPU's work included."""
        begun = now(self.clock)
        try:
            yield
        finally:
            seconds = now(self.clock) - begun
            self._spent[measure] = self._spent.get(measure, 0.0) + seconds
            self.costs.setdefault(measure, CostCurve()).seen(points, seconds)
