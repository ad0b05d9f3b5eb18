"""Options that several commands have, each explained once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from undertow.core.errors import ConfigError

__all__ = ["AS_PUBLISHED", "AS_USUAL", "HowToRun", "Json", "Offline", "OwnTable", "Runs", "Several"]

Runs = Annotated[Path, Parameter(help="The folder of the runs.")]
Json = Annotated[bool, Parameter(help="Print for machines.")]
Several = Annotated[tuple[str, ...], Parameter(show_default=False)]
Offline = Annotated[bool, Parameter(help="Download nothing: what is not on this machine is an error.")]


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
    weights: Annotated[bool, Parameter(negative="--no-weights")] = True
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


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OwnTable:
    """A table of one's own in place of the study's data.

    Parameters
    ----------
    data: Literal["table"]
        Run the study on a table, and on nothing else.
    path: Path
        Its file: CSV, Parquet or NPZ.
    label: str
        The column of classes.
    features: tuple[str, ...]
        The columns to learn from, as names or patterns ("Gene*"), one or several times; by default all with numbers.
    unlabelled_as: str
        The class of rows without a label, which are otherwise left out; of the parts on patients too, where it is
        event or event-free.
    """

    data: Literal["table"] | None = None
    path: Path | None = None
    label: str | None = None
    features: Several = ()
    unlabelled_as: str | None = None

    def settings(self) -> dict[str, Any] | None:
        """What the data's section is told; None where no table is asked for.

        >>> OwnTable(data="table", path=Path("my.csv"), label="outcome").settings()
        {'path': 'my.csv', 'label': 'outcome'}
        """
        given = {
            "path": None if self.path is None else str(self.path),
            "label": self.label,
            "features": list(self.features),
            "unlabelled_as": self.unlabelled_as,
        }
        if self.data is None:
            if any(value for name, value in given.items() if name != "unlabelled_as"):
                raise ConfigError("path, label and features are those of a table: write --data table too.")
            return None
        if self.path is None or self.label is None:
            raise ConfigError("a table needs --path, its file, and --label, the column of classes.")
        return {name: value for name, value in given.items() if value}


AS_USUAL, AS_PUBLISHED = HowToRun(), OwnTable()
