"""Where every member of a training run stands, as far as the device was last asked."""

from __future__ import annotations

import math
from collections.abc import Sequence

from undertow.training.batches import Turn
from undertow.training.divergence import MemberState
from undertow.training.recipe import Recipe
from undertow.training.step import NEVER, Step

__all__ = ["Standing"]


class Standing:
    """Members go in step, or where epochs may be taken back each by its own count of those it kept.

    What is asked with ``made`` is told for so many updates of the batch.
    """

    def __init__(self, step: Step, recipes: Sequence[Recipe], *, steps_per_epoch: int) -> None:
        self._step, self._per_epoch = step, steps_per_epoch
        self._rates = [recipe.learning_rate for recipe in recipes]
        self._wanted, self._most_tries = recipes[0].epochs, recipes[0].rate.most_tries
        self.look()

    def look(self) -> None:
        """Ask the device, which waits for it."""
        self.diverged: list[bool] = self._step.watch.diverged()
        self._ended: list[int] = self._step.ended.tolist()
        self._reached = [ended < NEVER for ended in self._ended]
        self._own = self._step.attempts is not None
        if (attempts := self._step.attempts) is not None:
            self._epochs: list[int] = attempts.epochs.tolist()
            self._tries: list[int] = attempts.tries.tolist()
            self._failed: list[int] = attempts.failed.tolist()
            self._reached = attempts.reached.tolist()

    def epochs(self, made: int) -> list[int]:
        """Epochs that each member has completed and kept."""
        return list(self._epochs) if self._own else [step // self._per_epoch for step in self.steps(made)]

    def tries(self, made: int) -> list[int]:
        """How often each member has passed over the data."""
        return list(self._tries) if self._own else self.epochs(made)

    def steps(self, made: int) -> list[int]:
        """Updates that each member has kept; those of a try under way do not count."""
        if self._own:
            return [epochs * self._per_epoch for epochs in self._epochs]
        return [min(made, ended) for ended in self._ended]

    def finished(self, made: int) -> list[bool]:
        """Which members have made all their epochs, or come to the loss that training was to end at."""
        most = self._wanted * self._per_epoch
        return [there or steps >= most for steps, there in zip(self.steps(made), self._reached, strict=True)]

    def told(self, made: int, log_losses: Sequence[float]) -> list[dict[str, float]]:
        """What each member's records say of its steps.

        ``tries`` so far, ``log10_rate`` of the next step's effective rate, ``log10_loss`` of the mean loss over the
        training set, and from the first step kept on ``log_time``, the natural log of t = Σ η over the effective rates.
        """
        logs = zip(self._step.log_rates().tolist(), log_losses, self._step.log_time().tolist(), strict=True)
        return [
            {"tries": float(tries), "log10_rate": rate / math.log(10), "log10_loss": loss / math.log(10)}
            | ({"log_time": time} if time > -math.inf else {})
            for tries, (rate, loss, time) in zip(self.tries(made), logs, strict=True)
        ]

    @property
    def all_stopped(self) -> bool:
        """Whether no member takes a further step, where they go in step."""
        return all(out or there for out, there in zip(self.diverged, self._reached, strict=True))

    def turns(self) -> list[Turn] | None:
        """Which epoch each member tries and how often it has failed; None where they are in step."""
        return list(zip(self._epochs, self._failed, strict=True)) if self._own else None

    def running(self) -> list[bool]:
        """Which members have neither diverged nor been given up; those that have finished are among them."""
        return [not out and not self._given_up(index) for index, out in enumerate(self.diverged)]

    def unfinished(self, made: int) -> list[int]:
        """The epochs of each member that goes on."""
        each = zip(self.epochs(made), self.running(), self._reached, strict=True)
        return [epochs for epochs, runs, there in each if runs and not there and epochs < self._wanted]

    def member(self, index: int, made: int) -> MemberState:
        """Status, step and, where it diverged, the reason."""
        if self.diverged[index]:
            return self._step.watch.state(index, learning_rate=self._rates[index])
        step, tries = self.steps(made)[index], self._tries[index] if self._own else None
        if self._given_up(index):
            reason = (
                f"{self._failed[index]} tries of epoch {self._epochs[index] + 1} in a row did not keep the training "
                "loss from rising: another learning rate, or more steps in an epoch, may help."
                f"{'' if self._step.attempts is None else self._step.attempts.frame_out_of_reach(index)}"
            )
            return MemberState("diverged", step, reason, tries)
        finished = self._reached[index] or self.epochs(made)[index] >= self._wanted
        return MemberState("finished" if finished else "running", step, None, tries)

    def _given_up(self, index: int) -> bool:
        return self._own and self._failed[index] >= self._most_tries
