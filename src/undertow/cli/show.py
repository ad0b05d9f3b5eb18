"""What the command line prints about studies, claims and stores."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from undertow.runs.store import Store
from undertow.studies import STUDIES, find
from undertow.studies.ledger import Entry, ledger

__all__ = ["claims_table", "print_claims", "print_json", "print_store", "print_studies"]

_COLOURS = {"holds": "green", "fails": "red", "undecided": "yellow"}


def print_json(value: Any) -> None:
    """Plain JSON on standard output, whatever the terminal."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_studies(*, as_json: bool) -> int:
    """Every study with its variants and costs."""
    found = [find(name) for name in STUDIES]
    if as_json:
        rows = [
            {
                "name": study.name,
                "title": study.title,
                "source": study.source,
                "costs": {str(scale): cost for scale, cost in study.costs.items()},
                "variants": dict(study.variants),
                "claims": [claim.id for claim in study.claims],
            }
            for study in found
        ]
        print_json(rows)
        return 0
    console = Console(highlight=False)
    for study in found:
        console.print(f"[bold]{study.name}[/]  {escape(study.title)}")
        console.print(f"  {escape(study.source)}", style="dim")
        for scale, cost in study.costs.items():
            console.print(f"  --scale {scale:<8} {escape(cost)}")
        for variant, meaning in study.variants.items():
            console.print(f"  --variant {variant:<8} {escape(meaning)}")
    return 0


def print_claims(runs: Path, *, as_json: bool) -> int:
    """The ledger of a folder."""
    entries = ledger(Store(runs))
    if as_json:
        print_json([entry.row() for entry in entries])
    else:
        Console(highlight=False).print(claims_table(entries))
    return 0


def claims_table(entries: list[Entry]) -> Table:
    """The ledger for people."""
    table = Table(
        "claim", "verdict", "effect", "95 % interval", "n", "what it says", pad_edge=False, box=None
    )
    for entry in entries:
        finding = entry.finding
        interval = "" if finding.interval is None else "{:.3g} … {:.3g}".format(*finding.interval)
        where = f"{entry.study}, {entry.variant}, {entry.scale}"
        text = f"{escape(entry.claim.text)}\n[dim]{escape(where)}; {escape(finding.note)}[/]"
        verdict = f"[{_COLOURS[finding.verdict]}]{finding.verdict}[/]"
        effect = "" if finding.effect is None else f"{finding.effect:.3g}"
        table.add_row(entry.claim.id, verdict, effect, interval, str(finding.n), text)
    return table


def print_store(runs: Path, *, as_json: bool) -> int:
    """Studies and how far they are; 1 when something is damaged or missing."""
    store = Store(runs)
    studies = store.studies()
    damage = {trial: str(error) for trial, error in store.damage()}
    rows = []
    for stored in studies:
        whole = [trial for trial, _ in stored.trials if trial in store and trial not in damage]
        status = Counter(store.trial(trial).status["status"] for trial in whole)
        rows.append(
            {
                "study": stored.config.name,
                "variant": stored.config.variant,
                "scale": stored.config.scale,
                "trials": len(stored.trials),
                "finished": status["finished"],
                "diverged": status["diverged"],
                "missing": len(stored.trials) - len(whole),
            }
        )
    if as_json:
        print_json({"path": str(store.path), "studies": rows, "damaged": damage})
    else:
        console = Console(highlight=False, soft_wrap=True)
        table = Table(*(rows[0] if rows else ()), pad_edge=False, box=None)
        for row in rows:
            table.add_row(*map(str, row.values()))
        console.print(table)
        for sentence in damage.values():
            console.print(escape(sentence), style="red")
        if any(row["missing"] for row in rows):
            console.print(f"Go on with:  [bold]undertow resume {escape(str(runs))}[/]")
    return 1 if damage or any(row["missing"] for row in rows) else 0
