"""What a measure costs by the number of its points, learnt from what it has cost."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["CostCurve"]

_BARELY = 0.6  # a price that grows more slowly than this power of the points is mostly there anyway


@dataclass
class CostCurve:
    """Seconds by points, as last seen, and a bound between and beyond them.

    Costs are taken to grow with n, and no faster than in proportion to it: then c(n) ≤ c(b)·n/b for b < n and
    c(n) ≤ c(a) for a > n. A fixed part, or a first call that is slower, makes the bound looser and never wrong.

    >>> curve = CostCurve()
    >>> curve.seen(2, 1.0)
    >>> curve.bound(2), curve.bound(8), curve.bound(1)
    (1.0, 4.0, 1.0)
    >>> curve.seen(8, 1.5)          # a fixed part shows: more points may cost little more
    >>> curve.bound(4), curve.bound(16)
    (1.5, 3.0)
    """

    seconds: dict[int, float] = field(default_factory=dict)

    def seen(self, points: int, seconds: float) -> None:
        self.seconds[points] = seconds

    @property
    def most(self) -> int:
        """The largest number of points that has been seen."""
        return max(self.seconds)

    def bound(self, points: int) -> float:
        """Seconds that so many points take at most."""
        if points in self.seconds:
            return self.seconds[points]
        fewer = max((each for each in self.seconds if each < points), default=None)
        more = min((each for each in self.seconds if each > points), default=None)
        bounds = [] if fewer is None else [self.seconds[fewer] * points / fewer]
        return min(bounds + ([] if more is None else [self.seconds[more]]))

    def aim(self, fewest: int, most: int) -> int:
        """The number of points that is worth waiting for.

        It is doubled while that hardly costs more, which a bound in proportion to the points would never find out.

        >>> curve = CostCurve({2: 1.0, 8: 1.2, 16: 1.5})
        >>> curve.aim(8, 64), CostCurve({2: 1.0, 8: 4.0}).aim(8, 64)
        (32, 8)
        """
        aim = fewest
        while aim < most and aim in self.seconds:
            fewer = max((each for each in self.seconds if each < aim), default=None)
            if fewer is not None and self.seconds[aim] > self.seconds[fewer] * (aim / fewer) ** _BARELY:
                return max(fewer, fewest)
            aim = min(2 * aim, most)
        return aim
