"""What the command line does about data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from undertow.cli.json_output import print_json
from undertow.core.errors import ConfigError, UndertowError, nearest
from undertow.core.near_orthogonality import NearOrthogonality
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
                **_numbers(info),
                "licence": info.licence,
                "source": info.source,
            }
            for info in found
        ]
        print_json(rows)
        return 0
    table = Table("name", "state", "what, and where", pad_edge=False, box=None)
    notes = []
    for info in found:
        known, note = _orthogonality(info)
        notes += [note] if note else []
        place = f"in {info.where}" if info.where else f"from {info.source}"
        number = "" if known is None else f"; orthogonality {known[0].value:.2g}"
        table.add_row(info.name, str(info.state), f"{escape(info.title)}\n[dim]{escape(place + number)}[/]")
    console = Console(highlight=False)
    console.print(table)
    console.print(
        "Orthogonality: min ‖x‖²/(n·max|⟨x, x′⟩|) of the training split; nearly orthogonal data have 1 or more. "
        "More numbers, and licences: --json."
    )
    for note in notes:
        console.print(escape(note), style="yellow")
    return 0


def _orthogonality(info: DatasetInfo) -> tuple[tuple[NearOrthogonality, float] | None, str]:
    """The numbers of a data set that is here; where its file cannot be read as one, a sentence that says why not."""
    if info.state is not State.PRESENT:
        return None, ""
    try:
        return known_orthogonality(CATALOGUE[info.name]), ""
    except UndertowError as error:
        return None, f"{info.name} is here, but cannot be loaded: {error}"


def _numbers(info: DatasetInfo) -> dict[str, Any]:
    known, note = _orthogonality(info)
    if known is None:
        return {"near_orthogonality": None, **({"problem": note} if note else {})}
    found, correlation = known
    return {
        "near_orthogonality": found.value,
        "near_orthogonality_with_norms": found.with_norms,
        "near_orthogonality_by_sums": found.by_sums,
        "mean_cosine": found.mean_cosine,
        "feature_correlation": correlation,
    }


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
