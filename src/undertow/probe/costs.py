"""What readings take, in seconds: timed, and said once of every measure."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

__all__ = ["Costs", "ReadingCost", "now"]

_LONG = 60.0  # seconds beyond which a training is held up that should know


@dataclass(frozen=True)
class ReadingCost:
    """What one reading took, and on how many points it was."""

    seconds: float
    points: int


@dataclass
class Costs:
    """The last reading of every measure; ``names`` are what they are called, in the probe's order.

    The first reading is what is known of the next. It goes to the log "undertow": as information, or as a warning where
    it holds a training up for more than a minute.

    >>> seconds = iter([0.0, 1.5])
    >>> costs = Costs(["energy"], clock=lambda: next(seconds))
    >>> with costs.timing(0, 64):
    ...     pass
    >>> costs.last
    {'energy': ReadingCost(seconds=1.5, points=64)}
    >>> costs.sentence(["energy"])
    'a reading of energy took 1.5 s on 64 points; the next will cost about as much. Fewer points (points=…), a larger \
rtol, a rarer schedule or a budget make it cheaper.'
    """

    names: Sequence[str]
    clock: Callable[[], float] = time.perf_counter
    last: dict[str, ReadingCost] = field(default_factory=dict)
    _untold: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        counts = {name: list(self.names).count(name) for name in self.names}
        self.names = [f"{name} ({i})" if counts[name] > 1 else name for i, name in enumerate(self.names)]

    @contextmanager
    def timing(self, index: int, points: int) -> Iterator[None]:
        """Time a reading of the measure in that place; one that fails has no cost."""
        begun = now(self.clock)
        yield
        name = self.names[index]
        if name not in self.last:
            self._untold.append(name)
        self.last[name] = ReadingCost(now(self.clock) - begun, points)

    def tell(self) -> None:
        """Say what the first readings took, of those of which it has not been said."""
        names, self._untold = self._untold, []
        if not names:
            return
        long = sum(self.last[name].seconds for name in names) > _LONG
        logging.getLogger("undertow").log(logging.WARNING if long else logging.INFO, self.sentence(names))

    def sentence(self, names: Sequence[str]) -> str:
        """What a reading of each of these took."""
        dearest = sorted(names, key=lambda name: -self.last[name].seconds)
        each = [
            f"{name} took {self.last[name].seconds:.2g} s on {self.last[name].points} points"
            for name in dearest
        ]
        return (
            f"a reading of {', of '.join(each)}; the next will cost about as much. Fewer points (points=…), a larger "
            "rtol, a rarer schedule or a budget make it cheaper."
        )


def now(clock: Callable[[], float]) -> float:
    """The time by ``clock``, with what a GPU has been given to do done."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
    return clock()
