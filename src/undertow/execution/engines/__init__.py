"""Engines: how groups of trials get executed. All write to the same store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from undertow.core.errors import ConfigError, nearest
from undertow.execution.engines.gpus import visible_gpus
from undertow.execution.engines.here import Here
from undertow.execution.engines.processes import Processes

if TYPE_CHECKING:
    from undertow.execution.engines.worker import Engine

__all__ = ["ENGINES", "engine"]

ENGINES = ("auto", "here", "processes", "dask")


def engine(
    name: str = "auto",
    *,
    workers: int | None = None,
    address: str | None = None,
    keep_weights: bool = True,
) -> Engine:
    """The engine called ``name``: ``here`` (this process), ``processes`` or ``dask``.

    ``auto`` is ``here`` on one GPU, which one process fills, or on a single core, and ``processes`` elsewhere.
    ``workers`` defaults to one for each GPU, pinned to it, or without GPUs to the number of cores; more workers than
    GPUs take them in turn. Without an ``address`` dask starts a local cluster. Without ``keep_weights`` trials are
    stored without their networks.
    """
    if name not in ENGINES:
        raise ConfigError(f"there is no engine {name!r}; {nearest(name, ENGINES)}")
    if workers is not None and workers < 1:
        raise ConfigError(f"workers = {workers}: at least one is needed.")
    if address is not None and name != "dask":
        raise ConfigError(f"an address belongs to the engine dask, not to {name}.")
    gpus = visible_gpus() if address is None else ()
    count = workers or len(gpus) or os.cpu_count() or 1
    if name == "auto":
        name = "here" if count == 1 or len(gpus) == 1 else "processes"
    if name == "processes":
        return Processes(count, keep_weights=keep_weights, gpus=gpus)
    if name == "dask":
        from undertow.execution.engines.cluster import Cluster  # dask, which need not be installed

        return Cluster(address, count, keep_weights=keep_weights, gpus=gpus)
    return Here(keep_weights=keep_weights)
