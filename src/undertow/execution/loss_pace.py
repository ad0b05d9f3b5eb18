"""How fast the loss falls, for people who wait: its power of ten, tries per epoch, time to the next decade."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

from undertow.training import Trainer

__all__ = ["LossPace"]

_REMEMBERED = 200
_SECONDS = 0.5


class LossPace:
    """Told of by a group whose training is long: where epochs may be taken back, or a loss is the goal.

    ``note`` is about the slowest network: the one with the largest loss.
    """

    def __init__(self, trainer: Trainer, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._trainer, self._clock = trainer, clock
        self._seen: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)
        self._step, self._looked = -1, -math.inf
        self.note = ""

    def look(self) -> None:
        """Ask the trainer: at the end of a try, where that costs nothing, or where a loss is the goal now and then."""
        trainer = self._trainer
        if not trainer.apart or trainer.step == self._step or not self._is_time():
            return
        self._step, self._looked = trainer.step, self._clock()
        losses = [
            loss for loss, runs in zip(trainer.log_loss().tolist(), trainer.running(), strict=True) if runs
        ]
        if not losses or not math.isfinite(worst := max(losses) / math.log(10)):
            return
        now = self._clock()
        if not self._seen or worst < self._seen[-1][1]:
            self._seen.append((now, worst))
        self.note = f"log10 L {worst:.2f}{self._tries()}{self._left(now, worst)}"

    def _is_time(self) -> bool:
        """Without tries a look is a pass over the data, as often as training looks itself and a few times a second."""
        trainer = self._trainer
        if trainer.revocable:
            return trainer.step % trainer.steps_per_epoch == 0
        return trainer.step - self._step >= trainer.look_every and self._clock() - self._looked >= _SECONDS

    def _tries(self) -> str:
        """How many tries an epoch takes, where epochs may be taken back."""
        trainer = self._trainer
        if not trainer.revocable:
            return ""
        tries = sum(trainer.tries()) / max(sum(trainer.epochs()), 1)
        spared = f", {100 * trainer.spared / trainer.step:.0f} % of steps spared" if trainer.spared else ""
        return f", {tries:.1f} tries per epoch kept{spared}"

    def _left(self, now: float, worst: float) -> str:
        """The time to the next power of ten, at the pace of the later half of what was seen."""
        if len(self._seen) < 4:
            return ""
        then, before = self._seen[len(self._seen) // 2]
        pace = (before - worst) / (now - then) if now > then else 0.0
        if pace <= 0:
            return ""
        goal = math.floor(worst - 1e-9)
        return f", 10^{goal} in about {_duration((worst - goal) / pace)}"


def _duration(seconds: float) -> str:
    """Seconds for people.

    >>> _duration(42.0), _duration(600.0), _duration(90000.0)
    ('42 s', '10 min', '25 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
