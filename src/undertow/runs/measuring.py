"""The measures of a group of trials: when each is due, what it reads, what it remembers and what it costs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from torch import Tensor

from undertow.data.dataset import Dataset
from undertow.precision import matmul_precision
from undertow.probe.reading import Measure, informed
from undertow.probe.records import Record
from undertow.probe.schedule import Schedule
from undertow.probe.together import read_together
from undertow.probe.tracking import Tracked, follow, remembers, restore_all, state_of_all
from undertow.runs.config import TrialConfig
from undertow.runs.records import encode_all
from undertow.training import Trainer

__all__ = ["GroupMeasures"]


class GroupMeasures:
    """What is measured of the networks that a trainer holds, on points that are put on its device once.

    The trainer must stand at the start of training: measures with a memory begin there. ``seconds`` is what each
    measure has taken so far, by its name.
    """

    def __init__(self, trials: Sequence[TrialConfig], points: Dataset, trainer: Trainer) -> None:
        self._trials, self._trainer = trials, trainer
        self._networks = [trainer.network(index, shared=True) for index in range(len(trials))]
        like = next(self._networks[0].parameters())
        self._x, self._y = points.x.to(like), points.y.to(like.device)
        pairs = [(informed(measure, points.details), every) for measure, every in trials[0].probe.build()]
        self._schedules = [
            Schedule(every, steps_per_epoch=max(trainer.steps_per_epoch, 1)) for _, every in pairs
        ]
        self._measures = [self._followed(measure) for measure, _ in pairs]
        self._limits = [each.get("limit") for each in trials[0].probe.measures]
        self.observes = any(
            own.observes for each in self._measures for own in _each(each) if isinstance(own, Tracked)
        )
        self.seconds: dict[str, float] = {}

    def _followed(self, measure: Measure) -> Measure | list[Measure]:
        """The measure, or one tracker per network where it has a memory of the training."""
        if not remembers(measure):
            return measure
        x, y = self._trainer.data
        return [
            follow(measure, self._trainer.network(index), x, y, learning_rate=trial.training.learning_rate)
            for index, trial in enumerate(self._trials)
        ]

    def next(self, step: int) -> int:
        """The first step after ``step`` at which something is due, the end of training apart."""
        return min(schedule.next(step) for schedule in self._schedules)

    def observe(self) -> None:
        """Show the networks to the measures with a memory; called after every step."""
        running = self._trainer.running()
        for measure in self._measures:
            for own, network, runs in zip(_each(measure), self._networks, running, strict=False):
                if isinstance(own, Tracked) and own.observes and runs:
                    own.tracker.observe(network)

    def take(self, *, ended: bool) -> bytes:
        """The records of this moment, of the measures that are due or, at the end of training, of all.

        Networks that diverged are left out: their end is told by their status, and numbers of them tell nothing.
        """
        running = [index for index, runs in enumerate(self._trainer.running()) if runs]
        records = bytearray()
        if not running:
            return bytes(records)
        step, epoch = self._trainer.step, self._trainer.epoch
        networks = [self._networks[index] for index in running]
        for measure, schedule, limit in zip(self._measures, self._schedules, self._limits, strict=True):
            if not (ended or schedule.due(step)):
                continue
            began = time.monotonic()
            chosen = measure if callable(measure) else [measure[index] for index in running]
            name = _each(measure)[0].name
            x, y = self._x[:limit], self._y[:limit]
            with matmul_precision("float32"):
                found = read_together(chosen, networks, x, y)
            for index, readings in zip(running, found, strict=True):
                trial = self._trials[index].id
                records += encode_all(Record(trial, step, epoch, name, *reading) for reading in readings)
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began
        return bytes(records)

    # What the measures remember, for checkpoints

    def state(self) -> dict[str, Tensor]:
        """The trackers' tensors."""
        return state_of_all(self._keyed())

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Give the trackers their tensors back, on the trainer's device."""
        restore_all(self._keyed(), {name: tensor.to(self._x.device) for name, tensor in state.items()})

    def _keyed(self) -> dict[str, Measure]:
        """Every tracker by a name that no other has: the measure's place in the list, and the member."""
        return {
            f"{place}/{member}": own
            for place, measure in enumerate(self._measures)
            for member, own in enumerate(_each(measure))
        }


def _each(measure: Measure | list[Measure]) -> list[Measure]:
    return measure if isinstance(measure, list) else [measure]
