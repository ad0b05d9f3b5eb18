"""What every engine runs for a group, wherever it runs it; and how far away it is stopped and watched."""

from __future__ import annotations

import contextlib
import gc
import os
import traceback
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch

from undertow.config.grid import Group
from undertow.core.errors import UndertowError
from undertow.data.offline import offline, staying_offline
from undertow.execution.footprint import MEMORY_USED_UP, is_out_of_memory
from undertow.execution.group import GroupOutcome, remove_work, run_group
from undertow.execution.watch import Watch
from undertow.store import progress
from undertow.store.atomic import make_folder, writing
from undertow.store.lock import Locked
from undertow.store.store import Store

__all__ = [
    "CHECKPOINT_SECONDS",
    "Engine",
    "Orders",
    "attempt",
    "going_on",
    "read_progress",
    "work",
    "working",
]


CHECKPOINT_SECONDS = 30.0


class Engine(Protocol):
    """How groups get executed."""

    def run(
        self, store: Store, groups: list[Group], *, stop: Callable[[], bool], watch: Watch
    ) -> Iterator[GroupOutcome]:
        """Run the groups, yielding each outcome as it comes; once ``stop()`` is true, end at checkpoints."""
        ...


def attempt(
    store: Store,
    group: Group,
    *,
    stop: Callable[[], bool],
    on_progress: Callable[[int, int, str], None],
    checkpoint_seconds: float,
    keep_weights: bool,
) -> GroupOutcome:
    """``run_group`` whose failures are outcomes: one bad group does not end the sweep.

    A group of several networks that does not fit is ``too large``: whoever asked may try fewer at a time.
    """
    try:
        return run_group(
            store,
            group,
            stop=stop,
            on_progress=on_progress,
            checkpoint_seconds=checkpoint_seconds,
            keep_weights=keep_weights,
        )
    except Locked as error:
        return GroupOutcome(group.id, "locked", 0, (str(error),))
    except UndertowError as error:
        return GroupOutcome(group.id, "failed", 0, (str(error),), traceback.format_exc())
    except Exception as error:
        if not is_out_of_memory(error):
            # A defect: show where.
            last = traceback.format_exc(limit=-2).strip()
            sentence = f"{type(error).__name__}: {error}\n{last}"
            return GroupOutcome(group.id, "failed", 0, (sentence,), traceback.format_exc())
        trace = traceback.format_exc()
    # Out of memory. Only here, where the error and with it the frames of its traceback are gone, can tensors be freed.
    gc.collect()
    torch.cuda.empty_cache()
    if len(group.trials) == 1:
        return GroupOutcome(group.id, "failed", 0, (MEMORY_USED_UP,), trace)
    remove_work(store, group)
    return GroupOutcome(group.id, "too large", 0)


@dataclass(frozen=True)
class Orders:
    """What a process elsewhere needs to know besides the group.

    ``signal`` is a file in the store: its removal asks to stop, and so does, where given, the end of the process
    ``parent``.
    """

    store: str
    signal: str
    threads: int
    checkpoint_seconds: float
    parent: int | None = None
    keep_weights: bool = True
    offline: bool = field(default_factory=offline)


@contextlib.contextmanager
def working(orders: Orders) -> Iterator[None]:
    """As a worker has to be while it works on a group: with its share of threads, offline where that was asked for."""
    torch.set_num_threads(orders.threads)
    with staying_offline(orders.offline):
        yield


def work(orders: Orders, group: Group) -> GroupOutcome:
    """Run a group in another process, which sees the store."""

    def asked_to_stop() -> bool:
        return not os.path.exists(orders.signal) or orders.parent not in (None, os.getppid())

    with working(orders):
        return attempt(
            Store(orders.store),
            group,
            stop=asked_to_stop,
            on_progress=lambda *_: None,  # whoever asks reads what the group itself tells: ``read_progress``
            checkpoint_seconds=orders.checkpoint_seconds,
            keep_weights=orders.keep_weights,
        )


def read_progress(store: Store, group: Group) -> tuple[int, int, str] | None:
    """How far a group in another process is, if it has said so."""
    told = progress.read_progress(store.path / "work" / group.id)
    return (told.step, told.steps, told.note) if told and told.steps else None


@contextlib.contextmanager
def going_on(store: Store) -> Iterator[Path]:
    """A file in the store that is there until the sweep is to stop, and not any longer than this lasts.

    Its name is new, so that whoever finds it sees this very store, and not another one at the same path.
    """
    path = make_folder(store.path / "work") / f"sweep-{uuid.uuid4().hex[:8]}"
    with writing(path):
        path.touch()
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
