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
from undertow.core.stacked_members import StackedMembers
from undertow.data.data_section import Split
from undertow.data.dataset import Dataset
from undertow.measures.reading import Measure, Reading, StackedMeasure, Tracker, informed
from undertow.probe.batched import all_preserved, readings_of_members
from undertow.probe.records import Record
from undertow.probe.schedule import Schedule
from undertow.probe.tracking import Tracked, begin_tracking, remembers, restore_all, state_of_all
from undertow.store.record_files import encode_all
from undertow.training import Trainer
from undertow.training.taken import StepTaken

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
            self._followed(measure, points[split])
            for (measure, _), split in zip(pairs, probe.splits, strict=True)
        ]
        self._names, self._limits = probe.names, [_limit_of(each) for each in probe.measures]
        self.observes = any(True for _ in self._observing())
        self.seconds: dict[str, float] = {}
        self._seen = [-1] * len(trials)  # each network's steps when it was last measured
        self._by_level = any(schedule.level for schedule in self._schedules)
        # Decimal logarithms of the loss and of t when each measure was last taken of each network, where these decide.
        self._levels = torch.full(
            (2, len(pairs) if self._by_level else 0, len(trials)), math.inf, dtype=torch.float64
        )
        self._before: dict[int, dict[str, Tensor]] = {}
        if trainer.revocable:
            self._remember()

    def _followed(self, measure: Measure, points: Sequence[Dataset]) -> list[Measure]:
        """The measure of each network, told what its data know, or a tracker where it has a memory of the training."""
        told = {id(each): informed(measure, each.details) for each in points}
        own = [told[id(each)] for each in points]
        if not remembers(own[0]):
            return own
        return [
            begin_tracking(each, self._trainer.network(index), *self._trainer.data(index), learning_rate=rate)
            for index, (each, rate) in enumerate(zip(own, self._trainer.first_rates(), strict=True))
        ]

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
        if self._by_level or self.observes or not kept:
            return (step // size + 1) * size
        soonest = min(
            schedule.next(steps) - steps for schedule in (*self._schedules, _TOLD) for steps in kept
        )
        return (step // size + -(-soonest // size)) * size

    def observe(self) -> None:
        """Tell the measures with a memory what became of the last step; called after every one."""
        self._trainer.show()
        steps, networks = self._trainer.taken(), self._trainer.together(self._network)
        for measure in self._measures:
            shown: dict[int, tuple[Tracker, StepTaken]] = {}
            for index, (own, taken) in enumerate(zip(measure, steps, strict=True)):
                if isinstance(own, Tracked) and own.observes and taken is not None:
                    if not taken.accepted:
                        own.tracker.restore(self._before[id(own)])
                    shown[index] = own.tracker, taken
            self._show_step(shown, networks)
        if self._trainer.revocable and self._trainer.step % self._trainer.steps_per_epoch == 0:
            self._remember()

    def _show_step(self, shown: Mapping[int, tuple[Tracker, StepTaken]], networks: StackedMembers) -> None:
        """A step to one measure's trackers, by their members: at once where they can take it so."""
        trackers = [tracker for tracker, _ in shown.values()]
        batched = getattr(trackers[0], "observe_batched", None) if trackers else None
        if batched is not None:
            batched(trackers, networks, list(shown))
            return
        for index, (tracker, taken) in shown.items():
            tracker.observe(self._network(index), taken)

    def _remember(self) -> None:
        """Keep what the trackers know at the beginning of a try, for those whose network goes back there."""
        self._before = {
            id(own): {name: tensor.clone() for name, tensor in own.tracker.state().items()}
            for own in self._observing()
        }

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
        """The trackers' tensors, and those from before the try under way."""
        before = {
            f"before/{key}/{name}": tensor
            for key, own in self._keyed().items()
            for name, tensor in self._before.get(id(own), {}).items()
        }
        levels = {"levels": self._levels} if self._by_level else {}
        return {**state_of_all(self._keyed()), **before, **levels}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Give the trackers their tensors back, on the trainer's device."""
        if self._by_level:
            self._levels = state["levels"].clone().cpu()
        here = {name: tensor.to(self._trainer.device) for name, tensor in state.items() if name != "levels"}
        restore_all(self._keyed(), {name: t for name, t in here.items() if not name.startswith("before/")})
        self._before = {
            id(own): {
                name.removeprefix(f"before/{key}/"): tensor
                for name, tensor in here.items()
                if name.startswith(f"before/{key}/")
            }
            for key, own in self._keyed().items()
            if isinstance(own, Tracked)
        }
        self._seen = self._trainer.steps()  # a checkpoint knows the records of its step

    def _observing(self) -> Iterator[Tracked]:
        """The trackers that are shown every step."""
        for measure in self._measures:
            yield from (own for own in measure if isinstance(own, Tracked) and own.observes)

    def _keyed(self) -> dict[str, Measure]:
        """Every tracker by a name that no other has: the measure's place in the list, and the member."""
        return {
            f"{place}/{member}": own
            for place, measure in enumerate(self._measures)
            for member, own in enumerate(measure)
        }


def _limit_of(measure: Mapping[str, Any]) -> int | None:
    """How many of the points a measure takes: what the probe allows it, or its own ``points`` where these are fewer."""
    limits = [measure[key] for key in ("limit", "points") if measure.get(key) is not None]
    return min(limits, default=None)
