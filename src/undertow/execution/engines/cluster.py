"""The engine that runs groups on a Dask cluster, of this machine or of others.

Workers that see the store's folder write to it; those that do not send their finished trials back (``away.py``). Where
workers declare the resource ``GPU``, each group asks for one. Groups are handed out a few at a time, so that those that
come later ask for the GPUs of workers that did.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from undertow.config.grid import Group
from undertow.core.errors import ConfigError
from undertow.execution.engines.away import Delivery, deliver
from undertow.execution.engines.gpus import pinned_to
from undertow.execution.engines.worker import CHECKPOINT_SECONDS, Orders, going_on, read_progress
from undertow.execution.group import GroupOutcome
from undertow.execution.watch import Watch
from undertow.store.store import Store

__all__ = ["Cluster"]

_POLL = 0.2
_ONE_GPU = {"GPU": 1}


@dataclass(frozen=True)
class Cluster:
    """A Dask cluster at ``address``, or without one a local one: ``workers`` processes, each with one of ``gpus``."""

    address: str | None = None
    workers: int = 1
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    keep_weights: bool = True
    gpus: tuple[str, ...] = ()

    def run(
        self, store: Store, groups: list[Group], *, stop: Callable[[], bool], watch: Watch
    ) -> Iterator[GroupOutcome]:
        """See ``Engine.run``."""
        distributed = _distributed()
        run = f"undertow-{uuid.uuid4().hex[:8]}"
        with going_on(store) as signal, self._client() as client:
            # One thread: a cluster's worker has its cores shared out already.
            orders = Orders(
                str(store.path.resolve()),
                str(signal.resolve()),
                1,
                self.checkpoint_seconds,
                keep_weights=self.keep_weights,
            )
            told: dict[str, tuple[int, int, str]] = {}  # by workers that do not see the store
            client.subscribe_topic(run, lambda event: told.__setitem__(event[1][0], tuple(event[1][1:])))
            while not _workers(client) and not stop():
                time.sleep(_POLL)
            left, waiting = deque(groups), dict[Any, Group]()
            while waiting or left:
                if not stop():
                    workers = _workers(client)
                    for group in (left.popleft() for _ in range(_room(workers, len(waiting), len(left)))):
                        # Dask starts a group again when its worker dies; the group itself goes on from its checkpoint.
                        key = f"{run}-{group.id}"
                        options = {"key": key, "pure": False, "resources": _resources(workers)}
                        waiting[client.submit(deliver, orders, group, run, **options)] = group
                if stop() and signal.exists():
                    distributed.Event(run, client=client).set()
                    signal.unlink()
                if not signal.exists():
                    left.clear()  # as good as interrupted before their first step
                if not signal.exists() and not _workers(client):
                    return  # nobody is left who could end at a checkpoint
                if not waiting:
                    time.sleep(_POLL)  # all workers are gone, and others may come
                    continue
                with contextlib.suppress(TimeoutError):
                    distributed.wait(list(waiting), timeout=_POLL, return_when="FIRST_COMPLETED")
                for future in [future for future in waiting if future.done()]:
                    yield _outcome(future, waiting.pop(future), store)
                for group in list(waiting.values()):
                    if now := read_progress(store, group) or told.get(group.id):
                        watch.progress(group, *now)

    @contextlib.contextmanager
    def _client(self) -> Iterator[Any]:
        distributed = _distributed()
        if self.address is None:
            with _local(self.workers, self.gpus) as cluster, distributed.Client(cluster) as client:
                yield client
            return
        try:
            client = distributed.Client(self.address, timeout=20)
        except (OSError, ValueError) as error:
            raise ConfigError(f"no Dask scheduler answers at {self.address}: {error}.") from None
        with client:
            yield client


def _local(workers: int, gpus: tuple[str, ...]) -> Any:
    """A cluster on this machine, its workers pinned to one GPU each where there are any."""
    distributed = _distributed()
    memory = distributed.system.MEMORY_LIMIT // workers
    options = {"nthreads": 1, "memory_limit": memory, "resources": _ONE_GPU if gpus else {}}
    return distributed.SpecCluster(
        scheduler={"cls": distributed.Scheduler, "options": {"host": "127.0.0.1", "dashboard": False}},
        workers={
            place: {
                "cls": distributed.Nanny,
                "options": {**options, "env": pinned_to(gpus, place, workers=workers)},
            }
            for place in range(workers)
        },
        silence_logs=logging.WARNING,
    )


def _room(workers: Mapping[str, Any], waiting: int, left: int) -> int:
    """How many of the groups that are left to hand out: each of a worker's threads has one, and one to go on with.

    >>> _room({"one": {"nthreads": 2}}, waiting=1, left=9), _room({"one": {"nthreads": 2}}, waiting=4, left=9)
    (3, 0)
    """
    threads = sum(int(worker["nthreads"]) for worker in workers.values())
    return max(0, min(left, 2 * threads - waiting))


def _resources(workers: Mapping[str, Any]) -> dict[str, int] | None:
    """What a group asks of a worker: a GPU, if any worker says that it has one.

    >>> _resources({"one": {"resources": {}}}), _resources({"one": {"resources": {}}, "two": {"resources": {"GPU": 1}}})
    (None, {'GPU': 1})
    """
    return _ONE_GPU if any("GPU" in worker["resources"] for worker in workers.values()) else None


def _workers(client: Any) -> dict[str, Any]:
    """What the scheduler knows of its workers, by their addresses."""
    known: dict[str, Any] = client.scheduler_info()["workers"]
    return known


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise ConfigError("the engine dask needs `pip install undertow[cluster]`.") from None


def _outcome(future: Any, group: Group, store: Store) -> GroupOutcome:
    """What came of a group, after its trials are in the store; it is to be done again where they are not whole."""
    try:
        delivery: Delivery = future.result()
    except Exception as error:  # what the cluster itself says: a worker killed too often, a lost connection
        return GroupOutcome(group.id, "failed", 0, (f"the cluster gave up group {group.id}: {error}",))
    broken = store.receive(delivery.trials)
    return GroupOutcome(group.id, "interrupted", 0, tuple(broken)) if broken else delivery.outcome
