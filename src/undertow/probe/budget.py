"""A price for measuring: at most a share of the time that training takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from undertow.core.errors import InputError
from undertow.probe.cost_curve import CostCurve

__all__ = ["Budget"]

_FEWEST = 8  # points below which a mean over them says little
_PILOT = 2  # points that a measure's price is learnt on
_UNKNOWN = 0.1  # seconds that have to be there before a measure is tried of which nobody knows the price


@dataclass
class Budget:
    """Seconds that may be spent on measuring: ``share`` of what training has taken so far, less what was spent.

    What a measure costs nobody knows before its first call. So it is first tried on two points, a *pilot*, once
    training has earned a tenth of a second; the next unknown measure has to wait until that is paid for. From then on a
    reading is taken when what it costs at most (:class:`CostCurve`) has been earned: on all points, or half, a
    quarter, … down to eight; where not even those are paid for, it waits for the next moment that its schedule names.
    At any moment the share is exceeded by no more than what one measure's pilot took, and once the pilots are paid
    for, not at all, as far as costs grow no faster than the points.

    Every measure has an account with an equal part of the share. It may use what others leave, but not what they save
    for a reading of their own: neither does an expensive measure keep cheap ones waiting, nor do they use up
    what it saves.

    >>> now = [0.0]
    >>> budget = Budget(0.05, clock=lambda: now[0])
    >>> budget.points("energy", 64), budget.pilot("energy", 64)      # nothing has been earned
    (None, None)
    >>> now[0] = 100.0
    >>> budget.pilot("energy", 64)
    2
    >>> with budget.spending("energy", 2):
    ...     now[0] += 0.5
    >>> budget.points("energy", 64)     # 4.5 s are left, and 16 points take 4 s at most
    16
    """

    share: float
    clock: Callable[[], float] = time.perf_counter
    measures: Sequence[str] = ()
    """Those that will be asked for; others get an account when they first are."""
    costs: dict[str, CostCurve] = field(default_factory=dict)
    _spent: dict[str, float] = field(default_factory=dict)
    _most: dict[str, int] = field(default_factory=dict)
    _begun: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.share, bool) or not 0 < self.share < 1:
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
        """The points on which a measure of unknown price is tried now; None where it is known, or has to wait."""
        if measure in self.costs or count <= _PILOT or self.available(measure) < _UNKNOWN / self._accounts:
            return None
        return _PILOT

    def points(
        self, measure: str, count: int, *, fewest: int | None = None, last: bool = False
    ) -> int | None:
        """How many of ``count`` points a reading is on now; None where it has to wait.

        ``fewest`` is for a measure that needs so many. The ``last`` reading, for which there is no later moment, has
        everything that is left, and may be on two points.
        """
        self._most[measure] = count
        smallest = min(_PILOT, count) if fewest is None else fewest
        fewest = min(_FEWEST, count) if fewest is None else fewest
        available = self.left if last else self.available(measure)
        if measure not in self.costs:
            enough = available >= _UNKNOWN / self._accounts and (last or smallest == fewest)
            return smallest if enough else None
        curve = self.costs[measure]
        least = smallest if last else curve.aim(fewest, count)
        choice = count
        while choice > least and curve.bound(choice) > available:
            choice = max(least, choice // 2)
        return choice if curve.bound(choice) <= available else None

    @contextmanager
    def spending(self, measure: str, points: int) -> Iterator[None]:
        """Time what is done within, a GPU's work included."""
        begun = self._now()
        try:
            yield
        finally:
            seconds = self._now() - begun
            self._spent[measure] = self._spent.get(measure, 0.0) + seconds
            self.costs.setdefault(measure, CostCurve()).seen(points, seconds)

    @property
    def _accounts(self) -> int:
        return max(1, len(self._spent))

    def _now(self) -> float:
        if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
        return self.clock()
