"""The engine that runs groups in several processes of this machine."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

from undertow.config.grid import Group
from undertow.core.environment_variables import having
from undertow.execution.engines.gpus import pinned_to
from undertow.execution.engines.worker import CHECKPOINT_SECONDS, Orders, going_on, read_progress, work
from undertow.execution.group import GroupOutcome
from undertow.execution.watch import Watch
from undertow.store.store import Store

__all__ = ["Processes"]

_ATTEMPTS = 3
_POLL = 0.2


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    group: Group | None = None


@dataclass(frozen=True)
class Processes:
    """``workers`` processes, started afresh (spawned), that share the cores' threads evenly.

    A worker that dies is replaced, and its group is tried again from its checkpoint, three times in all. With ``gpus``
    each worker sees one of them, in turn.
    """

    workers: int
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    keep_weights: bool = True
    gpus: tuple[str, ...] = ()

    def run(
        self, store: Store, groups: list[Group], *, stop: Callable[[], bool], watch: Watch
    ) -> Iterator[GroupOutcome]:
        """See ``Engine.run``."""
        waiting = deque(groups)
        deaths: Counter[str] = Counter()
        with going_on(store) as signal_file, contextlib.ExitStack() as stack:
            count = min(self.workers, len(groups))
            # No more than this process was given: OMP_NUM_THREADS is for whoever shares the machine with others.
            threads = max(1, min(torch.get_num_threads(), (os.cpu_count() or 1) // max(count, 1)))
            orders = Orders(
                str(store.path),
                str(signal_file),
                threads,
                self.checkpoint_seconds,
                os.getpid(),
                keep_weights=self.keep_weights,
            )
            team = [_start(orders, self.gpus, place, count) for place in range(count)]
            stack.callback(_dismiss, team)
            while waiting or any(worker.group for worker in team):
                if stop():
                    signal_file.unlink(missing_ok=True)
                    waiting.clear()
                for place, worker in enumerate(team):
                    if worker.group is None and waiting:
                        if not worker.process.is_alive():
                            worker = team[place] = _start(orders, self.gpus, place, count)
                        worker.group = waiting.popleft()
                        with contextlib.suppress(BrokenPipeError):  # found dead below
                            worker.pipe.send(worker.group)
                for worker in _ready(team):
                    group, worker.group = worker.group, None
                    assert group is not None
                    try:
                        outcome: GroupOutcome = worker.pipe.recv()
                    except (EOFError, OSError):
                        worker.process.join()
                        deaths[group.id] += 1
                        if deaths[group.id] < _ATTEMPTS and not stop():
                            waiting.append(group)
                            continue
                        outcome = _lost(group, worker.process.exitcode)
                    yield outcome
                _show(store, team, watch)


def _start(orders: Orders, gpus: tuple[str, ...], place: int, workers: int) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, orders), daemon=True)
    with having(pinned_to(gpus, place, workers=workers)):
        process.start()
    theirs.close()  # so that the worker's death is an end of file here
    return _Worker(process, ours)


def _serve(pipe: Connection, orders: Orders) -> None:
    """A worker's life: receive a group, run it, send the outcome, until the pipe closes."""
    # Ctrl-C reaches every process of the terminal; the parent alone decides, through the signal file.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while (group := pipe.recv()) is not None:
            pipe.send(work(orders, group))
    gc.freeze()  # nobody waits half a second for the last look through all that was ever imported


def _ready(team: list[_Worker]) -> list[_Worker]:
    busy = {worker.pipe: worker for worker in team if worker.group}
    return [busy[pipe] for pipe in wait(list(busy), timeout=_POLL) if isinstance(pipe, Connection)]


def _lost(group: Group, code: int | None) -> GroupOutcome:
    if code == -signal.SIGKILL:
        why = "was killed, perhaps for want of memory: try fewer workers."
    else:
        why = (
            f"ended with code {code}; what it printed says why. (In a script, what starts processes belongs "
            "under `if __name__ == '__main__':`.)"
        )
    sentence = f"the process that worked on group {group.id} died {_ATTEMPTS} times; it {why}"
    return GroupOutcome(group.id, "failed", 0, (sentence,))


def _dismiss(team: list[_Worker]) -> None:
    for worker in team:
        with contextlib.suppress(OSError):
            worker.pipe.send(None)
        worker.pipe.close()
    for worker in team:
        worker.process.join(timeout=10)
        if worker.process.is_alive():
            worker.process.kill()


def _show(store: Store, team: list[_Worker], watch: Watch) -> None:
    for worker in team:
        if worker.group and (told := read_progress(store, worker.group)):
            watch.progress(worker.group, *told)
