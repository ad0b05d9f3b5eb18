"""Options that several commands have, each explained once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

__all__ = ["AS_USUAL", "HowToRun", "Json", "Offline", "Runs"]

Runs = Annotated[Path, Parameter(help="The folder of the runs.")]
Json = Annotated[bool, Parameter(help="Print for machines.")]
Offline = Annotated[
    bool, Parameter(negative=(), help="Download nothing: what is not on this machine is an error.")
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class HowToRun:
    """How trials are executed, and what is kept of them.

    Parameters
    ----------
    engine: Literal["auto", "here", "processes", "dask"]
        In this process, in local processes, or on a Dask cluster; auto takes one process for each GPU, else all cores.
    workers: int
        Number of processes; by default one for each GPU, or the number of cores.
    address: str
        The Dask scheduler, e.g. tcp://host:8786; without it dask starts a local cluster.
    weights: bool
        Keep the trained networks; --no-weights keeps only what was measured of them.
    """

    engine: Literal["auto", "here", "processes", "dask"] = "auto"
    workers: int | None = None
    address: str | None = None
    weights: bool = True
    offline: Offline = False

    def words(self) -> list[str]:
        """The options that say the same on the command line.

        >>> HowToRun(workers=2, weights=False).words()
        ['--workers', '2', '--no-weights']
        """
        words = [] if self.engine == "auto" else ["--engine", self.engine]
        words += [] if self.workers is None else ["--workers", str(self.workers)]
        words += [] if self.address is None else ["--address", self.address]
        words += [] if self.weights else ["--no-weights"]
        return words + ["--offline"] * self.offline


AS_USUAL = HowToRun()
