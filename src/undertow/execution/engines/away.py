"""Groups worked on where the store's folder is not to be seen: their finished trials are sent back.

Whether a worker sees the store is not asked of anybody: it looks for the sweep's signal file, whose name is new. A
worker that does not find it has a store of its own in its machine's folder for temporary files. Checkpoints stay there,
and whichever worker of that machine is given the group again goes on from them; finished trials are removed when sent.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from undertow.config.grid import Group
from undertow.core.canonical import digest
from undertow.execution.engines.worker import Orders, attempt, work, working
from undertow.execution.group import GroupOutcome
from undertow.store.store import Store

__all__ = ["Delivery", "deliver"]

_SECONDS = 1.0  # between two questions to the scheduler, and between two words to it


@dataclass(frozen=True)
class Delivery:
    """What comes back from a worker: the outcome, and the files of trials that it finished out of the store's sight."""

    outcome: GroupOutcome
    trials: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)


def deliver(orders: Orders, group: Group, run: str) -> Delivery:
    """Run a group on a Dask worker; ``run`` names the event that asks to stop, and the topic that hears of progress."""
    asked_to_stop = _asked_to_stop(run)
    if asked_to_stop():
        return Delivery(GroupOutcome(group.id, "interrupted", 0))
    if os.path.exists(orders.signal):
        return Delivery(work(orders, group))
    store = Store(_folder_for(orders.store))
    with working(orders):
        outcome = attempt(
            store,
            group,
            stop=asked_to_stop,
            on_progress=_telling(run, group),
            checkpoint_seconds=orders.checkpoint_seconds,
            keep_weights=orders.keep_weights,
        )
    finished = [trial.id for trial in group.trials if trial.id in store]
    trials = {trial: store.files(trial) for trial in finished}
    for trial in finished:
        shutil.rmtree(store.folder(trial), ignore_errors=True)
    return Delivery(outcome, trials)


def _folder_for(store: str) -> Path:
    """Where trials of that store are worked on here: another folder for each store and each user of the machine."""
    return Path(tempfile.gettempdir()) / f"undertow-{os.getuid()}" / digest(store.encode())[:16]


def _asked_to_stop(run: str) -> Callable[[], bool]:
    event = importlib.import_module("distributed").Event(run)
    asked, answer = -math.inf, False

    def stop() -> bool:
        nonlocal asked, answer
        if time.monotonic() - asked > _SECONDS:
            asked = time.monotonic()
            with contextlib.suppress(
                OSError, TimeoutError
            ):  # a scheduler that is gone ends its workers by itself
                answer = event.is_set()
        return answer

    return stop


def _telling(run: str, group: Group) -> Callable[[int, int, str], None]:
    worker = importlib.import_module("distributed").get_worker()
    told = -math.inf

    def tell(step: int, steps: int, note: str) -> None:
        nonlocal told
        if time.monotonic() - told > _SECONDS:
            told = time.monotonic()
            worker.log_event(run, [group.id, step, steps, note])

    return tell
