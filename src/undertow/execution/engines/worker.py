"""What every engine runs for a group, wherever it runs it; and how far away it is stopped and watched."""

from __future__ import annotations

import contextlib
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
from undertow.execution.footprint import is_out_of_memory
from undertow.execution.group import GroupOutcome, run_group
from undertow.execution.watch import Watch
from undertow.store import progress
from undertow.store.atomic import make_folder
from undertow.store.lock import Locked
from undertow.store.store import Store

__all__ = ["CHECKPOINT_SECONDS", "Engine", "Orders", "attempt", "read_progress", "stop_file", "work"]


CHECKPOINT_SECONDS = 30.0
_NO_MEMORY = (
    "the memory was used up: choose less data, narrower networks or a smaller group_size, fewer workers, or a machine "
    "with more of it."
)


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
    """``run_group`` whose failures are outcomes: one bad group does not end the sweep."""
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
        if is_out_of_memory(error):
            return GroupOutcome(group.id, "failed", 0, (_NO_MEMORY,), traceback.format_exc())
        # A defect: show where.
        last = traceback.format_exc(limit=-2).strip()
        sentence = f"{type(error).__name__}: {error}\n{last}"
        return GroupOutcome(group.id, "failed", 0, (sentence,), traceback.format_exc())


@dataclass(frozen=True)
class Orders:
    """What a process elsewhere needs to know besides the group.

    ``stop`` is a file whose appearance asks to stop; so does, where given, the end of the process ``parent``.
    """

    store: str
    stop: str
    threads: int
    checkpoint_seconds: float
    parent: int | None = None
    keep_weights: bool = True
    offline: bool = field(default_factory=offline)


def work(orders: Orders, group: Group) -> GroupOutcome:
    """Run a group in another process."""
    torch.set_num_threads(orders.threads)
    with staying_offline(orders.offline):
        return _work(orders, group)


def _work(orders: Orders, group: Group) -> GroupOutcome:

    def asked_to_stop() -> bool:
        return os.path.exists(orders.stop) or orders.parent not in (None, os.getppid())

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
def stop_file(store: Store) -> Iterator[Path]:
    """The name of a file that does not exist yet; it is removed afterwards."""
    path = make_folder(store.path / "work") / f"stop-{uuid.uuid4().hex[:8]}"
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
