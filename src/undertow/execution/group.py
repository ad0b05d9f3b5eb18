"""Run a group of trials: train them as one batch, measure on schedule, checkpoint, publish.

Whatever interrupts this (a signal, a power cut, a full disk), the same call made again goes on from the last
checkpoint and ends with the very same records.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from undertow.config.grid import Group
from undertow.core.errors import StoreError
from undertow.core.losses import labels_of_classes
from undertow.core.tensor_files import pack
from undertow.execution.build import build_recipe, seed_of_data
from undertow.execution.checkpoint import Workspace
from undertow.execution.footprint import check_memory
from undertow.execution.group_members import draw_networks, load_members, origin
from undertow.execution.group_results import changed_since, kept_examples, lines_of_trials, status_of
from undertow.execution.kept_networks import KeptNetworks
from undertow.execution.loss_pace import LossPace
from undertow.execution.measuring import GroupMeasures
from undertow.execution.threads import threads_for
from undertow.store.lock import Lock
from undertow.store.progress import Beacon
from undertow.store.provenance import environment
from undertow.store.store import Store
from undertow.store.stored_trial import FinishedTrial
from undertow.training import Trainer

__all__ = ["GroupOutcome", "remove_work", "run_group"]

_REMEMBERED = "remembered/"  # how a checkpoint tells the measures' tensors from the training's
_RESPONSIVE = 0.25  # seconds between looks at the clock and at whether to stop
_NEAR = 8  # of these, the most that a group takes to end a try before it stops


@dataclass(frozen=True)
class GroupOutcome:
    """How far a group came: finished, interrupted, locked, too large or failed.

    ``notes`` are sentences to show, ``trace`` is where in the code it failed.
    """

    group: str
    status: str
    trials: int
    notes: tuple[str, ...] = ()
    trace: str = ""


def run_group(
    store: Store,
    group: Group,
    *,
    stop: Callable[[], bool] = lambda: False,
    on_progress: Callable[[int, int, str], None] = lambda *_: None,
    checkpoint_seconds: float = 30.0,
    device: torch.device | str | None = None,
    keep_weights: bool = True,
) -> GroupOutcome:
    """Bring every trial of the group to its end, or to a checkpoint when ``stop()`` becomes true.

    ``on_progress(step, steps, note)`` is called a few times a second. Without ``keep_weights`` the trained networks are
    not stored, also those that the probe would keep on the way, only what was measured of them.
    """
    with Lock(store.path / "locks" / f"{group.id}.lock") as lock:
        missing = [trial for trial in group.trials if trial.id not in store]
        if not missing:
            remove_work(store, group)
            return GroupOutcome(group.id, "finished", 0)
        beacon = Beacon(_work_folder(store, group), group.id, [trial.id for trial in group.trials])
        run = _Run(store, group, lock, device, keep_weights=keep_weights)
        with threads_for(run.products):
            run.start()
            beacon.tell(run.progress, run.steps, run.records)
            saved = time.monotonic()
            while not run.ended:
                if stop():
                    run.end_try()
                    run.save()
                    return GroupOutcome(group.id, "interrupted", 0)
                if time.monotonic() - saved > checkpoint_seconds:
                    run.save()
                    saved = time.monotonic()
                run.advance()
                note = run.pace.note
                on_progress(run.progress, run.steps, note)
                beacon.tell(run.progress, run.steps, run.records, note)
            notes = run.publish()
        remove_work(store, group)
        return GroupOutcome(group.id, "finished", len(missing), notes)


class _Run:
    """A group in motion."""

    def __init__(
        self,
        store: Store,
        group: Group,
        lock: Lock,
        device: torch.device | str | None,
        *,
        keep_weights: bool,
    ) -> None:
        self.store, self.group, self.lock, self._keep_weights = store, group, lock, keep_weights
        self.began = time.monotonic()
        check_memory(group.trials)
        self.datasets, self.points = load_members(group.trials)
        self.workspace = Workspace(_work_folder(store, group))
        self.records = bytearray()
        self.seconds = {"whole": 0.0, "training": 0.0, "ending": 0.0}
        self.restarts = 0
        self._networks = draw_networks(group.trials, self.datasets)
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._chunk = 1

    @property
    def products(self) -> float:
        """About how many multiplications a step takes."""
        parameters = sum(p.numel() for network in self._networks for p in network.parameters())
        samples = len(self.datasets[0])
        return 3.0 * parameters * min(self.group.trials[0].training.batch_size or samples, samples)

    def start(self) -> None:
        """Go to the last checkpoint, or to the first measurement."""
        recipes = [build_recipe(trial) for trial in self.group.trials]
        loss = self.group.trials[0].training.loss
        own = [(each.x, labels_of_classes(each.labels, loss=loss)) for each in self.datasets]
        shared = all(each is self.datasets[0] for each in self.datasets)
        x, y = own[0] if shared else zip(*own, strict=True)
        self.trainer = Trainer(self._networks, x, y, recipes, device=self._device)
        self.steps = self.trainer.total_steps
        self.measures = GroupMeasures(self.group.trials, self.points, self.trainer)
        self.pace = LossPace(self.trainer)
        keep = self.group.trials[0].probe.keep if self._keep_weights else None
        self.kept = KeptNetworks(self.workspace.folder, self.group.trials, self.trainer, keep=keep)
        checkpoint = self.workspace.load()
        if checkpoint is None:
            self.kept.clear()
            self.kept.take()
            self.records += self.measures.take(ended=self.ended)
        else:
            state = checkpoint.state
            remembered = {name: state.pop(name) for name in list(state) if name.startswith(_REMEMBERED)}
            self.trainer.restore(state)
            self.measures.restore({name.removeprefix(_REMEMBERED): t for name, t in remembered.items()})
            self.records = bytearray(checkpoint.records)
            self.seconds |= checkpoint.notes["seconds"]
            self.measures.seconds = checkpoint.notes["measuring"]
            self.restarts = checkpoint.notes["restarts"] + 1
            self.kept.restore(checkpoint.notes.get("kept", {}))
        self.seconds["whole"] += time.monotonic() - self.began

    @property
    def step(self) -> int:
        return self.trainer.step

    @property
    def ended(self) -> bool:
        return self.trainer.done

    @property
    def progress(self) -> int:
        """Of ``steps``, those made; where epochs may be taken back, those that the slowest network has kept."""
        return self.trainer.epoch * self.trainer.steps_per_epoch if self.trainer.revocable else self.step

    def advance(self) -> None:
        """A fraction of a second of training, and the measurement where one is due."""
        began = time.monotonic()
        due = self.measures.next(self.step)
        due = due if self.trainer.revocable else min(due, self.steps)
        keep = self.kept.next(self.step)
        steps = min(self._chunk, (due if keep is None else min(due, keep)) - self.step)
        self._train(steps)
        elapsed = time.monotonic() - began
        self.seconds["training"] += elapsed
        self.pace.look()
        self._chunk = max(1, min(2 * self._chunk, int(steps * _RESPONSIVE / max(elapsed, 1e-6))))
        # Before any checkpoint can be taken at this step: a checkpoint knows the records of its step.
        if self.step == keep or self.ended:
            self.kept.take()
        if self.step == due or self.ended:
            self.records += self.measures.take(ended=self.ended)
        if self.ended:
            self.seconds["ending"] = time.monotonic() - began - elapsed
        self.seconds["whole"] += time.monotonic() - began

    def end_try(self) -> None:
        """To the end of a try, where that is near: a checkpoint between two tries holds half as much."""
        left = -self.step % self.trainer.steps_per_epoch
        if self.trainer.revocable and left <= _NEAR * self._chunk:
            while not self.ended and self.step % self.trainer.steps_per_epoch:
                self.advance()

    def _train(self, steps: int) -> None:
        if not self.measures.trackers.observe_steps:
            self.trainer.advance(steps)
            self.trainer.wait()  # so that its time is not put down to the measures
            return
        for _ in range(steps):
            self.trainer.advance(1)
            self.measures.trackers.observe()

    def save(self) -> None:
        """A checkpoint of this moment."""
        if not self.lock.held:
            raise StoreError(
                f"group {self.group.id} was taken over by another process while this one was suspended; "
                "nothing is lost: the other one goes on from the last checkpoint."
            )
        notes: dict[str, Any] = {"seconds": self.seconds, "measuring": self.measures.seconds}
        notes |= {"restarts": self.restarts, "kept": self.kept.state()}
        # For who carries it to another machine: there may be no record yet that would name them.
        notes["trials"] = [trial.id for trial in self.group.trials]
        remembered = {f"{_REMEMBERED}{name}": tensor for name, tensor in self.measures.state().items()}
        self.workspace.save(self.step, {**self.trainer.state(), **remembered}, notes, bytes(self.records))

    def publish(self) -> tuple[str, ...]:
        """Make the missing trials visible; those that are there already must agree, or a note says so."""
        trials, common = self.group.trials, self._provenance()
        records = lines_of_trials(bytes(self.records), trials)
        notes: list[str] = []
        finished: list[FinishedTrial] = []
        examples = kept_examples(trials, self.trainer, self.points)
        for index, (trial, member) in enumerate(zip(trials, self.trainer.members(), strict=True)):
            if trial.id in self.store:
                notes += changed_since(self.store, trial, records[trial.id], group=self.group.id)
                continue
            seeds = {"trial": trial.seed, "data": seed_of_data(trial)}
            finished.append(
                FinishedTrial(
                    config=trial,
                    records=records[trial.id],
                    weights=pack(self.trainer.state_of(index)) if self._keep_weights else None,
                    status=status_of(member),
                    provenance={**common, "data": origin(self.datasets[index]), "seeds": seeds},
                    examples=examples.get(index),
                    kept=self.kept.files(index),
                )
            )
        self.store.publish(finished, scratch=self.workspace.folder)
        return tuple(notes)

    def _provenance(self) -> dict[str, Any]:
        size = len(self.group.trials)
        return {
            **environment(),
            "group": {"id": self.group.id, "size": size},
            "cost": {
                "seconds": self.seconds["whole"] / size,
                "training": self.seconds["training"] / size,
                "ending": self.seconds["ending"] / size,
                "measuring": {name: seconds / size for name, seconds in self.measures.seconds.items()},
                "restarts": self.restarts,
            },
        }


def remove_work(store: Store, group: Group) -> None:
    """Remove the group's checkpoints: all of its trials are published, or its halves are run instead."""
    shutil.rmtree(_work_folder(store, group), ignore_errors=True)


def _work_folder(store: Store, group: Group) -> Path:
    return store.path / "work" / group.id
