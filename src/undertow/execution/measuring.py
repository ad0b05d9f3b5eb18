"""The measures of a group of trials: when each is due, what it reads, what it remembers and what it costs."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from undertow.config.trial import TrialConfig
from undertow.core.precision import matmul_precision
from undertow.data.data_section import Split
from undertow.data.dataset import Dataset
from undertow.execution.group_trackers import GroupTrackers, of_each_member
from undertow.measures.reading import Reading, StackedMeasure
from undertow.probe.batched import all_preserved, readings_of_members
from undertow.probe.records import Record
from undertow.probe.schedule import Schedule
from undertow.probe.tracking import Tracked
from undertow.store.record_files import encode_all
from undertow.training import Trainer

__all__ = ["GroupMeasures"]

_TOLD = Schedule("log")
"""When the steps themselves are told of at the least, where epochs may be taken back."""


class GroupMeasures:
    """What is measured of the networks that a trainer holds, each on its points, which are put on its device once.

    The trainer must stand at the start of training: measures with a memory begin there. ``seconds`` is what each
    measure has taken so far, by its name.
    """

    def __init__(
        self,
        trials: Sequence[TrialConfig],
        points: Mapping[Split | None, Sequence[Dataset]],
        trainer: Trainer,
    ) -> None:
        self._trials, self._trainer = trials, trainer
        self._made: dict[int, nn.Module] = {}
        probe = trials[0].probe
        # Of every measure and network: networks on the same points are measured together.
        self._sets = [[id(each) for each in points[split]] for split in probe.splits]
        like = trainer.data(0)[0]
        self._points = {
            id(each): (each.x.to(like), each.labels.to(like.device))
            for split in dict.fromkeys(probe.splits)
            for each in points[split]
        }
        pairs = probe.build()
        self._schedules = [
            Schedule(every, steps_per_epoch=max(trainer.steps_per_epoch, 1)) for _, every in pairs
        ]
        self._measures = [
            of_each_member(measure, points[split], trainer)
            for (measure, _), split in zip(pairs, probe.splits, strict=True)
        ]
        self._names, self._limits = probe.names, [_limit_of(each) for each in probe.measures]
        self.trackers = GroupTrackers(self._measures, trainer, self._network)
        self.seconds: dict[str, float] = {}
        self._seen = [-1] * len(trials)  # each network's steps when it was last measured
        self._by_level = any(schedule.level for schedule in self._schedules)
        # Decimal logarithms of the loss and of t when each measure was last taken of each network, where these decide.
        self._levels = torch.full(
            (2, len(pairs) if self._by_level else 0, len(trials)), math.inf, dtype=torch.float64
        )

    def next(self, step: int) -> int:
        """The first step of the trainer after ``step`` at which something may be due, the end of training apart.

        Where epochs may be taken back that is the end of a try: networks are measured where they were kept, and no
        network keeps more steps than are made.
        """
        if not self._trainer.revocable:
            return min(schedule.next(step) for schedule in self._schedules)
        size = self._trainer.steps_per_epoch
        going_on = zip(self._trainer.steps(), self._trainer.finished(), strict=True)
        kept = {steps for steps, finished in going_on if not finished}
        if self._by_level or self.trackers.observe_steps or not kept:
            return (step // size + 1) * size
        soonest = min(
            schedule.next(steps) - steps for schedule in (*self._schedules, _TOLD) for steps in kept
        )
        return (step // size + -(-soonest // size)) * size

    def take(self, *, ended: bool) -> bytes:
        """The records of this moment, of the measures that are due or, at the end of training, of all.

        Networks that diverged are left out: their end is told by their status, and numbers of them tell nothing. Where
        epochs may be taken back, a network is measured when it has kept one, and its record says which; networks
        that have kept the same number are measured together.
        """
        running = [index for index, runs in enumerate(self._trainer.running()) if runs]
        if not self._trainer.apart and not self._by_level:
            return self._read(running, ended=ended)
        records, now = bytearray(), self._present_levels()
        levels = None if now is None else (self._levels.tolist(), now.tolist())
        steps, finished = self._trainer.steps(), self._trainer.finished()
        # Those that went back, or ended before, stand where they have been measured already.
        moved = [index for index in running if self._seen[index] != steps[index]]
        alike: dict[tuple[int, bool, tuple[bool, ...]], list[int]] = {}
        for index in moved:
            due = tuple(self._has_passed(place, index, levels) for place in range(len(self._schedules)))
            alike.setdefault((steps[index], finished[index], due), []).append(index)
        for (_, last, passed), members in sorted(alike.items()):
            records += self._read(members, ended=last, passed=passed, now=now)
        self._seen = steps
        return bytes(records)

    def _present_levels(self) -> Tensor | None:
        """Decimal logarithms of the loss and of t of every network, (2, M), where measures are taken by them."""
        if not self._by_level:
            return None
        times = torch.tensor(self._trainer.log_time(), dtype=torch.float64)
        return torch.stack([self._trainer.log_loss(), times]) / math.log(10)

    def _has_passed(self, place: int, member: int, levels: tuple[list[Any], list[Any]] | None) -> bool:
        """Whether a measure taken by decades is due for this network, by the last levels and the present ones."""
        level = self._schedules[place].level
        if level is None or levels is None:
            return False
        row, (last, now) = 0 if level == "loss" else 1, levels
        return self._schedules[place].passed(last[row][place][member], now[row][member])

    def _read(
        self,
        members: Sequence[int],
        *,
        ended: bool,
        passed: Sequence[bool] = (),
        now: Tensor | None = None,
    ) -> bytes:
        """Records of networks that stand at the same step, of each measure that is due or, at the end, of all.

        ``passed`` tells for each measure whether a decade that it is taken at has been ``passed``.
        """
        if not members:
            return b""
        step, epoch = self._trainer.steps()[members[0]], self._trainer.epochs()[members[0]]
        due = [
            place
            for place, schedule in enumerate(self._schedules)
            if ended or (passed and passed[place]) or self._is_due(schedule, step, members[0])
        ]
        if now is not None:
            for place in due:
                self._levels[:, place, members] = now[:, members]
        records = self._measured(due, members, step, epoch) if due else b""
        told_now = self._trainer.revocable and self._is_due(_TOLD, step, members[0])
        for index, told in self._told(members if records or told_now else ()):
            trial = self._trials[index].id
            records += encode_all(
                Record(trial, step, epoch, "steps", key, value) for key, value in told.items()
            )
        return records

    def _measured(self, due: Sequence[int], members: Sequence[int], step: int, epoch: int) -> bytes:
        """Records of the measures in these places, of these networks."""
        records = bytearray()
        began = time.monotonic()
        self._trainer.show()
        together = self._trainer.together(self._network) if 1 < len(members) == len(self._trials) else None
        with contextlib.ExitStack() as stack:
            stack.enter_context(matmul_precision("float32"))
            preserved = False
            for place in due:
                name = self._names[place]
                stacked = together if self._reads_stacked(place) else None
                if stacked is None and not preserved:
                    stack.enter_context(all_preserved([self._network(index) for index in members]))
                    preserved = True
                found = self._readings(place, members, stacked)
                for index in members:
                    trial = self._trials[index].id
                    records += encode_all(
                        Record(trial, step, epoch, name, *reading) for reading in found[index]
                    )
                self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began
                began = time.monotonic()
        return bytes(records)

    def _reads_stacked(self, place: int) -> bool:
        """Whether a measure can read all members on their stacked weights: they share its points."""
        return isinstance(self._measures[place][0], StackedMeasure) and len(set(self._sets[place])) == 1

    def _readings(
        self, place: int, members: Sequence[int], stacked: Sequence[nn.Module] | None
    ) -> dict[int, list[Reading]]:
        """What a measure reads, of networks on the same points at once; ``stacked`` are all of them, if they may be."""
        sets, limit, found = self._sets[place], self._limits[place], dict[int, list[Reading]]()
        for points in dict.fromkeys(sets[index] for index in members):
            alike = [index for index in members if sets[index] == points]
            own = [self._measures[place][index] for index in alike]
            networks = stacked or [self._network(index) for index in alike]
            x, y = self._points[points]
            chosen = own if isinstance(own[0], Tracked) else own[0]
            found |= zip(alike, readings_of_members(chosen, networks, x[:limit], y[:limit]), strict=True)
        return found

    def _network(self, index: int) -> nn.Module:
        """A member as a network of its own, on the weights themselves, made when it is first asked for."""
        if index not in self._made:
            self._made[index] = self._trainer.network(index, shared=True)
        return self._made[index]

    def _is_due(self, schedule: Schedule, step: int, member: int) -> bool:
        """Whether the step is measured, or where networks stand at ends of epochs alone, any since the last one was."""
        if schedule.level is not None and step > 0:
            return False
        if not self._trainer.revocable or step == 0:
            return schedule.due(step)
        return schedule.next(self._seen[member]) <= step

    def _told(self, members: Sequence[int]) -> Iterator[tuple[int, dict[str, float]]]:
        """What records say of the steps themselves, where members go apart or decades decide."""
        if members and (self._trainer.apart or self._by_level):
            told = self._trainer.told()
            yield from ((index, told[index]) for index in members)

    # What the measures remember, for checkpoints

    def state(self) -> dict[str, Tensor]:
        """What the trackers remember, and the decades that were passed."""
        return {**self.trackers.state(), **({"levels": self._levels} if self._by_level else {})}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go back to what ``state`` told."""
        if self._by_level:
            self._levels = state["levels"].clone().cpu()
        self.trackers.restore({name: tensor for name, tensor in state.items() if name != "levels"})
        self._seen = self._trainer.steps()  # a checkpoint knows the records of its step


def _limit_of(measure: Mapping[str, Any]) -> int | None:
    """How many of the points a measure takes: what the probe allows it, or its own ``points`` where these are fewer."""
    limits = [measure[key] for key in ("limit", "points") if measure.get(key) is not None]
    return min(limits, default=None)
