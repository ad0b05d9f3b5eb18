"""Bring studies to their ends: skip what is done, mend what is damaged, run the rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from undertow.config.grid import Group, StudyConfig
from undertow.execution.engines.worker import Engine
from undertow.execution.watch import Watch
from undertow.store.failures import clear_failure, write_failure
from undertow.store.store import Store

__all__ = ["SweepOutcome", "sweep"]

_PATIENCE = 1.0


@dataclass(frozen=True)
class SweepOutcome:
    """How far the studies came."""

    trials: int
    finished: int
    interrupted: bool
    notes: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every trial is finished."""
        return self.finished == self.trials


def sweep(
    store: Store,
    *studies: StudyConfig,
    engine: Engine,
    stop: Callable[[], bool] = lambda: False,
    watch: Callable[[int], Watch] = lambda done: Watch(),  # noqa: ARG005
) -> SweepOutcome:
    """Run every trial of the studies that the store does not hold, and return what came of it.

    Several studies, such as the parts of one, are one queue: no core waits while a part comes to its end.
    Groups that another process works on are waited for. ``watch(done)`` makes what shows the progress, given
    the number of trials that were done before. A group that is too large for the memory of whoever tried it is split by
    networks, which are trained independently of each other: the halves have the same records, to rounding.
    """
    for study in studies:
        store.add_study(study)
    trials = [point.trial.id for study in studies for point in study.points]
    notes = [note for trial in trials if trial in store and (note := store.set_aside(trial))]
    groups = {group.id: group for study in studies for group in study.groups if _missing(store, group)}
    with watch(sum(trial in store for trial in trials)) as watching:
        while groups and not stop():
            moved = False
            held: list[str] = []
            for outcome in engine.run(store, list(groups.values()), stop=stop, watch=watching):
                over = outcome.status in ("finished", "failed", "too large")
                group = groups[outcome.group]
                watching.ended(group, finished=outcome.status == "finished")
                if outcome.status == "finished":
                    clear_failure(store.path, group.id)
                elif outcome.status == "failed":
                    members = [trial.id for trial in group.trials]
                    why = "\n".join(outcome.notes)
                    write_failure(store.path, group.id, members, sentence=why, trace=outcome.trace)
                elif outcome.status == "too large":
                    groups |= {half.id: half for half in group.halves if _missing(store, half)}
                if over:
                    del groups[outcome.group]
                    notes += outcome.notes
                elif outcome.status == "locked":
                    held += outcome.notes
                moved |= over
            if not moved and groups and not stop():
                watching.waiting(held)
                time.sleep(_PATIENCE)  # all that is left is in other hands
    finished = sum(trial in store for trial in trials)
    return SweepOutcome(len(trials), finished, finished < len(trials) and stop(), tuple(notes))


def _missing(store: Store, group: Group) -> bool:
    return any(trial.id not in store for trial in group.trials)
