"""What every engine runs for a group, wherever it runs it; and how far away it is stopped and watched."""

from __future__ import annotations

import contextlib
import os
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from undertow.errors import UndertowError
from undertow.runs.atomic import make_folder
from undertow.runs.grid import Group
from undertow.runs.group import GroupOutcome, run_group
from undertow.runs.lock import Locked
from undertow.runs.store import Store
from undertow.runs.watch import Watch

__all__ = ["CHECKPOINT_SECONDS", "Engine", "Orders", "attempt", "read_progress", "stop_file", "work"]


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
    on_progress: Callable[[int, int], None],
    checkpoint_seconds: float,
) -> GroupOutcome:
    """``run_group`` whose failures are outcomes: one bad group does not end the sweep."""
    try:
        return run_group(
            store, group, stop=stop, on_progress=on_progress, checkpoint_seconds=checkpoint_seconds
        )
    except Locked as error:
        return GroupOutcome(group.id, "locked", 0, (str(error),))
    except UndertowError as error:
        return GroupOutcome(group.id, "failed", 0, (str(error),))
    except Exception as error:  # a defect: show where
        last = traceback.format_exc(limit=-2).strip()
        return GroupOutcome(group.id, "failed", 0, (f"{type(error).__name__}: {error}\n{last}",))


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


def work(orders: Orders, group: Group) -> GroupOutcome:
    """Run a group in another process."""
    import torch

    torch.set_num_threads(orders.threads)
    progress = Path(orders.store) / "work" / f"{group.id}.progress"
    told = 0.0

    def asked_to_stop() -> bool:
        return os.path.exists(orders.stop) or orders.parent not in (None, os.getppid())

    def tell(step: int, steps: int) -> None:
        nonlocal told
        if time.monotonic() - told > 0.5:
            told = time.monotonic()
            with contextlib.suppress(OSError):
                progress.write_text(f"{step} {steps}")

    try:
        return attempt(
            Store(orders.store),
            group,
            stop=asked_to_stop,
            on_progress=tell,
            checkpoint_seconds=orders.checkpoint_seconds,
        )
    finally:
        with contextlib.suppress(OSError):
            progress.unlink(missing_ok=True)


def read_progress(store: Store, group: Group) -> tuple[int, int] | None:
    """How far a group in another process is, if it has said so."""
    try:
        step, steps = (store.path / "work" / f"{group.id}.progress").read_text().split()
        return int(step), int(steps)
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def stop_file(store: Store) -> Iterator[Path]:
    """The name of a file that does not exist yet; it is removed afterwards."""
    path = make_folder(store.path / "work") / f"stop-{uuid.uuid4().hex[:8]}"
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
