"""What the command line does about data sets."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from undertow.cli.json_output import print_json
from undertow.core.errors import ConfigError, nearest
from undertow.data.catalogue import CATALOGUE
from undertow.data.local import State
from undertow.data.offline import staying_offline
from undertow.data.orthogonality import known_orthogonality
from undertow.data.sources import DatasetInfo, available, check, fetch

__all__ = ["check_all", "fetch_all", "print_list"]


def print_list(*, as_json: bool) -> int:
    """Every data set known by name."""
    found = available()
    if as_json:
        rows = [
            {
                "name": info.name,
                "title": info.title,
                "state": str(info.state),
                "where": info.where,
                "bytes": info.size,
                "near_orthogonality": _orthogonality(info),
                "licence": info.licence,
                "source": info.source,
            }
            for info in found
        ]
        print_json(rows)
        return 0
    table = Table("name", "state", "what", "orthogonality", "where, or where from", pad_edge=False, box=None)
    for info in found:
        place = info.where or info.source
        near = _orthogonality(info)
        shown = "" if near is None else f"{near:.2g}"
        table.add_row(info.name, str(info.state), escape(info.title), shown, escape(place))
    console = Console(highlight=False)
    console.print(table)
    console.print(
        "orthogonality: min ‖x‖²/(n·max|⟨x, x′⟩|) of the training split; nearly orthogonal data have 1 or more."
    )
    return 0


def _orthogonality(info: DatasetInfo) -> float | None:
    return known_orthogonality(CATALOGUE[info.name]) if info.state is State.PRESENT else None


def fetch_all(names: Sequence[str], *, offline: bool = False) -> int:
    """Make each whole; 1 when one is not."""
    _refuse_unknown(names)
    with staying_offline(offline):
        return _report([fetch(name) for name in names])


def check_all(names: Sequence[str]) -> int:
    """Verify each; 1 when one is damaged or, where it was named, absent."""
    _refuse_unknown(names)
    if names:
        return _report([check(name) for name in names])
    return _report([info for info in available() if info.state is not State.ABSENT])


def _refuse_unknown(names: Sequence[str]) -> None:
    """A misspelt name is bad usage, and is refused before anything is downloaded."""
    for name in names:
        if name not in CATALOGUE:
            raise ConfigError(f"there is no data set {name!r}; {nearest(name, CATALOGUE)}")


def _report(found: list[DatasetInfo]) -> int:
    console = Console(highlight=False, soft_wrap=True)
    for info in found:
        console.print(escape(info.sentence), style=None if info.state is State.PRESENT else "red")
    return 0 if all(info.state is State.PRESENT for info in found) else 1
