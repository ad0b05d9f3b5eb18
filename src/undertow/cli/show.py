"""What the command line prints about claims."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from undertow.cli.json_output import print_json
from undertow.report import words
from undertow.store.tolerant import ReadableStore
from undertow.studies.kit.ledger import Entry, ledger

__all__ = [
    "VERDICT_COLOURS",
    "place",
    "print_claims",
    "print_ledger",
    "print_problems",
]

VERDICT_COLOURS = {
    "holds": "green",
    "fails": "red",
    "undecided": "yellow",
    "as it must be": "cyan",
    "violated": "bold red",
}


def print_claims(runs: Path, *, as_json: bool) -> int:
    """The ledger of a folder."""
    store = ReadableStore(runs)
    entries = ledger(store)
    print_problems(store, Console(stderr=True))
    if as_json:
        print_json([entry.row() for entry in entries])
    elif entries:
        print_ledger(Console(highlight=False), entries)
    else:
        print("The studies in this folder make no claims: `undertow show` says how far they are.")
    return 1 if store.problems else 0


def print_problems(store: ReadableStore, console: Console) -> None:
    """What of a folder could not be read, and why; and what is odd about it."""
    for problem in (*store.problems.values(), *store.notes.values()):
        console.print(problem, style="yellow", markup=False, soft_wrap=True)


def print_ledger(console: Console, entries: list[Entry]) -> None:
    """The ledger for people: each claim's verdict, sentence, numbers and circumstances, study by study; then checks."""
    for names, group in groupby(entries, key=place):
        found = list(group)
        for entry in sorted(found, key=lambda each: each.is_check):
            _print_entry(console, entry, names)
        console.print(Padding(f"[bold]{escape(names)}[/]: {words.family(found[0].family)}", (0, 0, 1, 0)))


def place(entry: Entry) -> str:
    """Where a claim was judged: study, variant, scale, and the seeds where they are not the study's own."""
    return ", ".join(filter(None, (entry.study, entry.variant, entry.scale, words.seeds(entry.seed_set))))


def _print_entry(console: Console, entry: Entry, names: str) -> None:
    verdict = entry.verdict
    console.print(f"[bold]{entry.claim.id}[/]  [{VERDICT_COLOURS[verdict]}]{verdict}[/]")
    about = "; ".join(filter(None, (names, entry.finding.note, *words.asides(entry))))
    numbers = "; ".join(filter(None, (words.finding(entry.finding), words.among(entry))))
    for line in (escape(entry.claim.text), numbers, f"[dim]{escape(about)}[/]"):
        console.print(Padding(line, (0, 0, 0, 4)))
