"""Engines: how groups of trials get executed. All write to the same store."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import torch

from undertow.core.errors import ConfigError, nearest
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

    ``auto`` is ``here`` on a GPU, which one process fills, or on a single core, and ``processes`` elsewhere.
    ``workers`` defaults to the number of cores; without an ``address`` dask starts a local cluster. Without
    ``keep_weights`` trials are stored without their networks.
    """
    if name not in ENGINES:
        raise ConfigError(f"there is no engine {name!r}; {nearest(name, ENGINES)}")
    if workers is not None and workers < 1:
        raise ConfigError(f"workers = {workers}: at least one is needed.")
    if address is not None and name != "dask":
        raise ConfigError(f"an address belongs to the engine dask, not to {name}.")
    count = workers or os.cpu_count() or 1
    if name == "auto":
        name = "here" if count == 1 or _on_gpu() else "processes"
    if name == "processes":
        return Processes(count, keep_weights=keep_weights)
    if name == "dask":
        from undertow.execution.engines.cluster import Cluster  # dask, which need not be installed

        return Cluster(address, count, keep_weights=keep_weights)
    return Here(keep_weights=keep_weights)


def _on_gpu() -> bool:
    if sys.platform == "linux" and not os.path.exists("/dev/nvidiactl"):
        return False
    return torch.cuda.is_available()
