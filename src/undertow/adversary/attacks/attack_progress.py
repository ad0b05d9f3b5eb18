"""Telling whoever waits for an attack what it will cost and how far it has come."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as Bars

from undertow.adversary.attacks.cost import Pace, expected
from undertow.adversary.attacks.search import Search

__all__ = ["AttackProgress", "Progress", "Watcher", "watching"]

_LONG = 5.0  # seconds from which a person at a terminal wants to know
_VERY_LONG = 60.0  # and from which a sentence in a log is not too much
_OFTEN = 0.1  # seconds between two calls of a listener


@dataclass(frozen=True)
class AttackProgress:
    """Where an attack stands: ``done`` of at most ``total`` passes; ``standing`` are samples not broken yet."""

    attack: str
    eps: float
    standing: int
    done: int
    total: int
    seconds: float
    """Since the attack began."""
    left: float
    """Seconds that the passes left would take at most, at the pace so far."""


Progress = bool | Callable[[AttackProgress], None] | None
"""None shows a bar where a person waits at a terminal for more than a few seconds; True always, False never."""


@dataclass
class Watcher:
    """What the attacks tell; without a ``listener`` nothing is computed at all."""

    listener: Callable[[AttackProgress], None] | None = None
    parts: int = 1
    later: int = 0
    """Passes at most for every part that follows."""
    began: float = field(default_factory=time.monotonic)
    _before: int = 0
    _state: tuple[str, float, int, int] = ("", 0.0, 0, 0)
    _last: float = 0.0

    def follow(self, search: Search) -> None:
        """Listen to the passes of one part of the networks."""
        if self.listener is not None:
            search.scorer.passes.listener = lambda: self._tell(search)

    def stage(self, search: Search, attack: str, eps: float, standing: int, left: Callable[[], int]) -> None:
        """An attack begins at ε on ``standing`` samples; ``left`` passes at most are to come, this one included."""
        if self.listener is None:
            return
        total = self._done(search) + left() + self.later * (self.parts - 1)
        self._state = (attack, eps, standing, total)
        self._tell(search, at_once=True)

    def leave(self, search: Search) -> None:
        """This part is done."""
        self._before += _passes(search)
        self.parts -= 1

    def _done(self, search: Search) -> int:
        return self._before + _passes(search)

    def _tell(self, search: Search, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if self.listener is None or not (at_once or now - self._last > _OFTEN):
            return
        self._last = now
        attack, eps, standing, total = self._state
        done, elapsed = self._done(search), now - self.began
        left = elapsed * max(total - done, 0) / max(done, 1)
        self.listener(AttackProgress(attack, eps, standing, done, max(total, done), elapsed, left))


@contextmanager
def watching(
    progress: Progress, search: Search, names: Sequence[str], radii: int, parts: int
) -> Iterator[Watcher]:
    """A watcher that shows what ``progress`` asks for, and says beforehand what it will cost."""
    if progress is False:
        yield Watcher()
        return
    size = len(search.y) * search.scorer.members
    most = sum(map(sum, _expected(search, names, radii, size).values()))
    if callable(progress):
        yield Watcher(progress, parts, most)
        return
    pace, person = Pace.of(search), sys.stderr.isatty()
    cost, fast = (
        pace.cost(_expected(search, attacks, radii, parts * search.standing)) for attacks in (names, ["fast"])
    )
    if not (progress or cost.seconds > (_LONG if person else _VERY_LONG)):
        yield Watcher()
        return
    hint = "" if "fast" in names else f"; attack='fast' takes about {fast.seconds:.2g} s"
    sentence = f"attacking {search.standing * parts:,} samples with {', '.join(names)}: {cost}{hint}"
    if person:
        with _bar(sentence) as listener:
            yield Watcher(listener, parts, most)
        return
    if progress:
        print(sentence, file=sys.stderr)
    else:
        logging.getLogger("undertow").warning(sentence)
    yield Watcher()


def _expected(search: Search, names: Sequence[str], radii: int, samples: int) -> dict[str, tuple[int, int]]:
    return expected(names, radii, samples, search.scorer.classes, members=search.scorer.members)


@contextmanager
def _bar(sentence: str) -> Iterator[Callable[[AttackProgress], None]]:
    console = Console(stderr=True)
    console.print(sentence, style="dim", highlight=False)
    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()]
    with Bars(*columns, TextColumn("{task.fields[left]}"), console=console, transient=True) as bars:
        task = bars.add_task("", total=1, left="")

        def listener(now: AttackProgress) -> None:
            bars.update(
                task,
                description=f"{now.attack}, ε = {now.eps:.4g}, {now.standing:,} standing",
                completed=now.done,
                total=now.total,
                left=f"at most {now.left:,.0f} s left",
            )

        yield listener


def _passes(search: Search) -> int:
    return search.scorer.passes.forward + search.scorer.passes.backward
