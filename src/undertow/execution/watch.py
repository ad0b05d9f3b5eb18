"""Watching a sweep: progress bars on a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from undertow.config.grid import Group
from undertow.execution.endings import Endings

__all__ = ["Bars", "Lines", "Watch"]

_LINE_SECONDS = 30.0


class Watch:
    """Told what happens in a sweep; this one does nothing with it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The sweep is over."""

    def progress(self, group: Group, step: int, steps: int, note: str = "") -> None:
        """The group has made ``step`` of ``steps`` steps; ``note`` is what else there is to say of it."""

    def ended(self, group: Group, *, finished: bool) -> None:
        """The group is over, or will be tried again."""

    def waiting(self, why: Sequence[str]) -> None:
        """All that is left is in other hands, a sentence for each group; told every second while that lasts."""


class _Counting(Watch):
    """Counts trials, those that are running by the share of their time that has gone by: so the time left is steady."""

    def __init__(
        self, console: Console, *, trials: int, done: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._told_why: set[str] = set()
        self._trials, self._done, self._clock = trials, done, clock
        self._endings = Endings()
        self._size: dict[str, int] = {}
        self._steps: dict[str, float] = {}  # the share of its steps that each group has made
        self._notes: dict[str, str] = {}

    @property
    def completed(self) -> float:
        return self._done + self._trials_in(self._steps)

    def _trials_in(self, steps: Mapping[str, float]) -> float:
        """How many trials' time has gone by when groups have made these shares of their steps."""
        return sum(self._size[group] * self._endings.time_of(share) for group, share in steps.items())

    def progress(self, group: Group, step: int, steps: int, note: str = "") -> None:
        self._size[group.id] = len(group.trials)
        self._notes[group.id] = note
        self._steps[group.id] = step / max(steps, 1)
        self._endings.seen(group.id, self._steps[group.id], self._clock())

    def ended(self, group: Group, *, finished: bool) -> None:
        self._size[group.id] = len(group.trials)
        self._steps[group.id] = 1.0 if finished else 0.0
        self._notes.pop(group.id, None)
        self._endings.ended(group.id, self._clock(), finished=finished)

    def waiting(self, why: Sequence[str]) -> None:
        for sentence in why:
            if sentence not in self._told_why:
                self._console.print(f"Waiting: {sentence}", markup=False, highlight=False)
        self._told_why.update(why)


class Bars(_Counting):
    """A bar for the study and one for each running group, with the time left, on a terminal."""

    def __init__(self, study: str, *, trials: int, done: int, console: Console) -> None:
        super().__init__(console, trials=trials, done=done)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
            refresh_per_second=2,  # drawing more often than that costs more than the store
        )
        self._study = self._bars.add_task(study, total=trials, completed=done, unit="trials", note="")
        self._running: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def progress(self, group: Group, step: int, steps: int, note: str = "") -> None:
        super().progress(group, step, steps, note)
        if group.id not in self._running:
            name = f"  {group.id[:8]} × {len(group.trials)}"
            self._running[group.id] = self._bars.add_task(name, total=steps, unit="steps", note="")
        self._bars.update(self._running[group.id], completed=step, note=note)
        self._bars.update(self._study, completed=int(self.completed))

    def ended(self, group: Group, *, finished: bool) -> None:
        super().ended(group, finished=finished)
        if group.id in self._running:
            self._bars.remove_task(self._running.pop(group.id))
        self._bars.update(self._study, completed=int(self.completed))


class Lines(_Counting):
    """A line every half minute, later every tenth of the time gone by, for a log: how far, and how long still."""

    def __init__(
        self,
        study: str,
        *,
        trials: int,
        done: int,
        console: Console,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(console, trials=trials, done=done, clock=clock)
        self._study = study
        self._began = self._told = clock()
        self._resumed: dict[str, float] = {}  # the steps that groups had made when they were taken up again

    def progress(self, group: Group, step: int, steps: int, note: str = "") -> None:
        super().progress(group, step, steps, note)
        self._resumed.setdefault(group.id, self._steps[group.id])
        self._tell()

    def ended(self, group: Group, *, finished: bool) -> None:
        super().ended(group, finished=finished)
        self._tell()

    def _tell(self) -> None:
        now = self._clock()
        elapsed = now - self._began
        if now - self._told < max(_LINE_SECONDS, elapsed / 10):
            return
        self._told = now
        since = self.completed - self._done - self._trials_in(self._resumed)
        left = self._trials - self.completed
        still = f", about {_minutes(elapsed / since * left)} left" if since > 0 else ""
        if still and not self._endings.known:
            still += ", last measurements not counted"
        self._console.print(
            f"{self._study}: {int(self.completed)} of {self._trials} trials after {_minutes(elapsed)}{still}",
            markup=False,
        )
        for note in filter(None, self._notes.values()):
            self._console.print(f"  {note}", markup=False)


def _minutes(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02}" if whole < 3600 else f"{whole // 3600}:{whole // 60 % 60:02} h"
