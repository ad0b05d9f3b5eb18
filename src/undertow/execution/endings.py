"""How much of a group's time lies after its last step, learnt from the groups that have ended."""

from __future__ import annotations

__all__ = ["Endings"]


class Endings:
    """The last measurement is part of a group's time and of none of its steps; for attacks it is most of it.

    Of every group that ends, all of its time is set beside the time that its steps would have taken at the pace
    last seen. Both are counted from the first sign of the group.

    >>> endings = Endings()
    >>> for now in range(10):
    ...     endings.seen("a", now / 10, now=float(now))  # ten seconds for all steps
    >>> endings.ended("a", now=40.0, finished=True)
    >>> endings.time_of(0.5), endings.time_of(1.0)
    (0.125, 1.0)
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {}
        self._by_steps = self._whole = 0.0

    @property
    def known(self) -> bool:
        """Whether a group has ended that could be learnt from."""
        return self._by_steps > 0

    def seen(self, group: str, share: float, now: float) -> None:
        """The group has made this share of its steps; all of them are only told when it has been measured, too."""
        if share < 1:
            first, _ = self._seen.get(group, ((share, now), None))
            self._seen[group] = (first, (share, now))

    def ended(self, group: str, now: float, *, finished: bool) -> None:
        """The group is over; only one that has finished tells how long the end takes."""
        if group not in self._seen:
            return
        (first, began), (last, seen) = self._seen.pop(group)
        if finished and last > first and seen > began:
            self._by_steps += (seen - began) * (1 - first) / (last - first)
            self._whole += now - began

    def time_of(self, share: float) -> float:
        """The share of a group's time that has gone by when it has made this share of its steps."""
        if share >= 1 or not self.known:
            return share
        return share * min(self._by_steps / self._whole, 1.0)
