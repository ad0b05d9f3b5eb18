"""On how many points each reading of a probe is: on all of them, or on as many as a budget allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from undertow.core.errors import UndertowError
from undertow.core.telling import tell
from undertow.measures.reading import Measure
from undertow.probe.budget import Budget
from undertow.probe.tracking import Tracked

__all__ = ["Affording", "tell_unpaid"]

T = TypeVar("T")


class Affording:
    """Points for readings of ``measures``, each of which takes up to its number in ``counts``."""

    def __init__(self, measures: Sequence[Measure], counts: Sequence[int]) -> None:
        self.names = [f"{place}:{measure.name}" for place, measure in enumerate(measures)]
        self._counts = counts
        # One with a memory needs the same points every time.
        self._fewest = [
            count if isinstance(measure, Tracked) else None
            for measure, count in zip(measures, counts, strict=True)
        ]

    def possible(self, budget: Budget | None, place: int, *, last: bool) -> bool:
        """Whether anything of that measure can be paid for now: a reading, or what tells its price."""
        return (
            budget is None
            or self._pilot(budget, place, last) is not None
            or self._points(budget, place, last) is not None
        )

    def paid(
        self,
        budget: Budget | None,
        place: int,
        take: Callable[[int], T],
        *,
        pilot: Callable[[int], object],
        last: bool,
    ) -> T | None:
        """What ``take`` gives of a number of points; None where its budget allows no more than learning its price."""
        if budget is None:
            return take(self._counts[place])
        few = self._pilot(budget, place, last)
        if few is not None:
            # Where so few points cannot be measured, a reading on more of them tells whether others can.
            with budget.spending(self.names[place], few), suppress(UndertowError):
                pilot(few)
        points = self._points(budget, place, last)
        if points is None:
            return None
        with budget.spending(self.names[place], points):
            return take(points)

    def _pilot(self, budget: Budget, place: int, last: bool) -> int | None:
        if last or self._fewest[place] is not None:
            return None
        return budget.pilot(self.names[place], self._counts[place])

    def _points(self, budget: Budget, place: int, last: bool) -> int | None:
        return budget.points(self.names[place], self._counts[place], fewest=self._fewest[place], last=last)


def tell_unpaid(names: Sequence[str]) -> None:
    """Warn of measures that nothing was left for at the end, where there are any."""
    if names:
        tell(
            f"the training was too short to pay for {', '.join(names)} at its end: raise budget, or measure afterwards "
            "with undertow.probe.take, which has none."
        )
