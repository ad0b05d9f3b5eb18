"""Engines: how groups of trials get executed. All write to the same store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from undertow.errors import ConfigError, nearest

if TYPE_CHECKING:
    from undertow.runs.engines.worker import Engine

__all__ = ["ENGINES", "engine"]

ENGINES = ("here", "processes", "dask")


def engine(name: str = "here", *, workers: int | None = None, address: str | None = None) -> Engine:
    """The engine called ``name``: ``here`` (this process), ``processes`` or ``dask``.

    ``workers`` defaults to the number of cores; without an ``address`` dask starts a local cluster.
    """
    if name not in ENGINES:
        raise ConfigError(f"there is no engine {name!r}; {nearest(name, ENGINES)}")
    if workers is not None and workers < 1:
        raise ConfigError(f"workers = {workers}: at least one is needed.")
    if address is not None and name != "dask":
        raise ConfigError(f"an address belongs to the engine dask, not to {name}.")
    count = workers or os.cpu_count() or 1
    if name == "processes":
        from undertow.runs.engines.processes import Processes

        return Processes(count)
    if name == "dask":
        from undertow.runs.engines.cluster import Cluster

        return Cluster(address, count)
    from undertow.runs.engines.here import Here

    return Here()
