"""Watching a sweep: progress bars on a terminal, silence elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from undertow.runs.grid import Group

__all__ = ["Bars", "Watch"]


class Watch:
    """Told what happens in a sweep; this one does nothing with it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The sweep is over."""

    def progress(self, group: Group, step: int, steps: int) -> None:
        """The group has made ``step`` of ``steps`` steps."""

    def ended(self, group: Group, *, finished: bool) -> None:
        """The group is over, or will be tried again."""


class Bars(Watch):
    """A bar for the study and one for each running group, with the time left; only on a terminal."""

    def __init__(self, study: str, *, trials: int, done: int, console: Console) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
            refresh_per_second=2,  # drawing more often than that costs more than the store
        )
        self._done = done
        self._study = self._bars.add_task(study, total=trials, completed=done, unit="trials")
        self._running: dict[str, TaskID] = {}
        self._share: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def progress(self, group: Group, step: int, steps: int) -> None:
        if group.id not in self._running:
            name = f"  {group.id[:8]} × {len(group.trials)}"
            self._running[group.id] = self._bars.add_task(name, total=steps, unit="steps")
        self._bars.update(self._running[group.id], completed=step)
        self._share[group.id] = len(group.trials) * step / max(steps, 1)
        # Counting fractions of trials makes the time left of the whole study steady.
        self._bars.update(self._study, completed=int(self._done + sum(self._share.values())))

    def ended(self, group: Group, *, finished: bool) -> None:
        if group.id in self._running:
            self._bars.remove_task(self._running.pop(group.id))
        self._share[group.id] = len(group.trials) if finished else 0.0
        self._bars.update(self._study, completed=int(self._done + sum(self._share.values())))
