"""The engine that runs groups on a Dask cluster; every worker must see the store's folder."""

from __future__ import annotations

import contextlib
import importlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from undertow.config.grid import Group
from undertow.core.errors import ConfigError
from undertow.execution.engines.worker import CHECKPOINT_SECONDS, Orders, read_progress, stop_file, work
from undertow.execution.group import GroupOutcome
from undertow.execution.watch import Watch
from undertow.store.store import Store

__all__ = ["Cluster"]

_POLL = 0.2


@dataclass(frozen=True)
class Cluster:
    """A Dask cluster at ``address``, or a local one of ``workers`` processes without an address."""

    address: str | None = None
    workers: int = 1
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    keep_weights: bool = True

    def run(
        self, store: Store, groups: list[Group], *, stop: Callable[[], bool], watch: Watch
    ) -> Iterator[GroupOutcome]:
        """See ``Engine.run``."""
        distributed = _distributed()

        path = str(store.path.resolve())
        with stop_file(store) as stopping, self._client() as client:
            # One thread: a cluster's worker has its cores shared out already.
            orders = Orders(
                path, str(stopping.resolve()), 1, self.checkpoint_seconds, keep_weights=self.keep_weights
            )
            run = uuid.uuid4().hex[:8]
            # Dask starts a group again when its worker dies; the group itself goes on from its checkpoint.
            waiting = {
                client.submit(work, orders, group, key=f"undertow-{group.id}-{run}", pure=False): group
                for group in groups
            }
            while waiting:
                if stop():
                    stopping.touch()
                with contextlib.suppress(TimeoutError):
                    distributed.wait(list(waiting), timeout=_POLL, return_when="FIRST_COMPLETED")
                for future in [future for future in waiting if future.done()]:
                    yield _outcome(future, waiting.pop(future))
                for group in list(waiting.values()):
                    if told := read_progress(store, group):
                        watch.progress(group, *told)

    @contextlib.contextmanager
    def _client(self) -> Iterator[Any]:
        distributed = _distributed()
        if self.address is None:
            cluster = distributed.LocalCluster(
                n_workers=self.workers, threads_per_worker=1, processes=True, dashboard_address=None
            )
            with cluster, distributed.Client(cluster) as client:
                yield client
            return
        try:
            client = distributed.Client(self.address, timeout=20)
        except (OSError, ValueError) as error:
            raise ConfigError(f"no Dask scheduler answers at {self.address}: {error}.") from None
        with client:
            yield client


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise ConfigError("the engine dask needs `pip install undertow[cluster]`.") from None


def _outcome(future: Any, group: Group) -> GroupOutcome:
    try:
        outcome: GroupOutcome = future.result()
        return outcome
    except Exception as error:  # what the cluster itself says: a worker killed too often, a lost connection
        return GroupOutcome(group.id, "failed", 0, (f"the cluster gave up group {group.id}: {error}",))
