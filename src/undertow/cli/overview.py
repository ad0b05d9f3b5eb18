"""``undertow show``: what is in a folder, at a glance, and how to go on."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from undertow.cli.json_output import print_json
from undertow.cli.show import VERDICT_COLOURS, place
from undertow.cli.sparklines import Line, main_curves, sparkline
from undertow.drawing.palette import MARKS
from undertow.report.words import plural, seeds
from undertow.store.folder import Folder
from undertow.store.following import Follower
from undertow.store.stored_study import StoredStudy
from undertow.store.tolerant import ReadableStore
from undertow.store.unfinished import BegunGroup, begun_groups
from undertow.studies.kit.ledger import Entry, ledger

__all__ = ["in_short", "print_store"]

_WIDE = 64  # columns that the table of a study's parts needs
_COUNTS = ("trials", "finished", "diverged", "missing")


def print_store(runs: Path, *, as_json: bool) -> int:
    """Studies and how far they are, curves, verdicts; 1 when something is damaged or missing."""
    store = ReadableStore(runs)
    studies = store.studies()
    rows = [_row(store, stored) for stored in studies]
    for trial in store.finished():
        _ = trial in store  # verified as well: trials that belong to no study can be damaged too
    follower = Follower(Folder(runs))
    follower.look()
    entries = ledger(store)
    begun = _stopped(store, follower)
    incomplete = any(row["missing"] for row in rows)
    if as_json:
        print_json(
            {
                "path": str(store.path),
                "studies": rows,
                "damaged": store.problems,
                "notes": store.notes,
                "running": {group: [each.step, each.steps] for group, each in follower.running.items()},
                "begun": {each.group: asdict(each) for each in begun},
                "failed": {group: each.sentence for group, each in follower.failures.items()},
                "verdicts": Counter(str(entry.verdict) for entry in entries if not entry.is_check),
                "checks": Counter(str(entry.verdict) for entry in entries if entry.is_check),
            }
        )
        return 1 if store.problems or incomplete else 0
    console = Console(highlight=False)
    _print_studies(console, rows)
    for stored, row in zip(studies, rows, strict=True):
        axes = dict.fromkeys(name for _, columns in stored.trials for name in columns)
        lines = main_curves(store.frame(stored), list(axes))
        _print_curves(console, f"{row['study']} {row['part']} ({_where(row)})", lines)
    _print_verdicts(console, entries)
    _print_troubles(console, store, follower, begun)
    place = shlex.quote(str(runs))
    if follower.running:
        console.print(f"Follow it with:  [bold]undertow live {escape(place)}[/]", soft_wrap=True)
    elif incomplete or store.problems:
        console.print(f"Go on with:  [bold]undertow resume {escape(place)}[/]", soft_wrap=True)
    return 1 if store.problems or incomplete else 0


def _row(store: ReadableStore, stored: StoredStudy) -> dict[str, Any]:
    whole = [trial for trial, _ in stored.trials if trial in store]
    status = Counter(store.trial(trial).status["status"] for trial in whole)
    return {
        "study": stored.name,
        "variant": stored.variant,
        "scale": stored.scale,
        "part": stored.part,
        "seed_set": stored.seed_set,
        "trials": len(stored.trials),
        "finished": status["finished"],
        "diverged": status["diverged"],
        "missing": len(stored.trials) - len(whole),
    }


def _where(row: dict[str, Any]) -> str:
    return ", ".join(filter(None, (row["variant"], row["scale"], seeds(row["seed_set"]))))


def _print_studies(console: Console, rows: list[dict[str, Any]]) -> None:
    if console.width < _WIDE:
        for row in rows:
            names = f"{row['study']} {row['part']} ({_where(row)})"
            counts = [f"{row[name]} {name}" for name in _COUNTS[1:] if row[name]]
            console.print(f"[bold]{escape(names)}[/]: {plural(row['trials'], 'trial')}, {', '.join(counts)}")
        return
    for (study, where), parts in groupby(rows, key=lambda row: (row["study"], _where(row))):
        console.print(f"[bold]{escape(study)}[/] ({escape(where)})")
        table = Table("part", *_COUNTS, pad_edge=False, box=None)
        for column in table.columns[1:]:
            column.justify = "right"
        for row in parts:
            table.add_row(escape(row["part"]), *(str(row[name]) for name in _COUNTS))
        console.print(Padding(table, (0, 0, 0, 2)))


def _print_curves(console: Console, title: str, lines: list[Line]) -> None:
    if not lines:
        return
    console.print()
    console.print(f"[bold]{escape(title)}[/] over training, [dim]mean of the finished trials[/]")
    names = [", ".join(filter(None, (f"{line.measure} {line.key}".strip(), line.kind))) for line in lines]
    longest = max(map(len, names))
    numbers = 22
    beside = console.width - longest - numbers - 6
    for name, line in zip(names, lines, strict=True):
        width = min(32, beside if beside >= 8 else console.width - numbers - 4)
        picture = sparkline(line.values, width=max(width, 4))
        ends = (
            f"{line.sign}{line.values[0]:.4g} → {line.sign}{line.values[-1]:.4g}"
            if line.values
            else "no finite value"
        )
        if beside >= 8:
            console.print(f"  {escape(name):<{longest}}  [cyan]{picture}[/]  {ends}", soft_wrap=True)
        else:
            console.print(f"  {escape(name)}")
            console.print(f"    [cyan]{picture}[/]  {ends}", soft_wrap=True)


def _print_verdicts(console: Console, entries: list[Entry]) -> None:
    """One line a claim, by study; `undertow claims` has the whole sentences and the evidence."""
    longest = max((len(entry.claim.id) for entry in entries), default=0)
    for names, group in groupby(entries, key=place):
        found = sorted(group, key=lambda entry: entry.is_check)
        study, _, where = names.partition(", ")
        counts = [
            Counter(str(each.verdict) for each in found if each.is_check is check) for check in (False, True)
        ]
        verdicts, checks = (
            ", ".join(f"[{VERDICT_COLOURS[name]}]{many[name]} {name}[/]" for name in MARKS if many[name])
            for many in counts
        )
        said = "; ".join(filter(None, (verdicts, checks and f"checks: {checks}")))
        console.print()
        console.print(f"[bold]{escape(study)} claims[/] ({escape(where)}): {said}")
        for entry in found:
            verdict = str(entry.verdict)
            mark = f"[{VERDICT_COLOURS[verdict]}]{MARKS[verdict]}[/]"
            text = in_short(entry.claim.text, console.width - longest - 6)
            console.print(f"  {mark} {escape(entry.claim.id):<{longest}}  {escape(text)}", soft_wrap=True)


def in_short(text: str, width: int) -> str:
    """At most so many characters; what is left out is left out of the middle, for claims often differ in their ends.

    >>> in_short("The order is that of the starts (leaky ReLU).", 32)
    'The order is tha…s (leaky ReLU).'
    """
    if len(text) <= width:
        return text
    end = max(width // 2 - 1, 0)
    return f"{text[: max(width - end - 1, 0)].rstrip()}…{text[len(text) - end :]}"


def _stopped(store: ReadableStore, follower: Follower) -> list[BegunGroup]:
    """Groups that nobody works on and that go on from their checkpoints."""
    wanted = {trial for stored in store.studies() for trial, _ in stored.trials if trial not in store}
    return [
        each
        for each in begun_groups(store.path)
        if each.group not in follower.running and not wanted.isdisjoint(each.trials)
    ]


def _print_troubles(
    console: Console, store: ReadableStore, follower: Follower, begun: list[BegunGroup]
) -> None:
    if follower.running or begun or follower.failures or store.problems or store.notes:
        console.print()
    for each in follower.running.values():
        about = f"step {each.step:,} of {each.steps:,}" if each.steps else "preparing"
        trials = plural(len(each.trials), "trial")
        note = f", {escape(each.note)}" if each.note else ""
        console.print(f"Running: {trials} of group {each.group}, {about}{note}.", soft_wrap=True)
    parts = {trial: stored.part for stored in store.studies() for trial, _ in stored.trials}
    for own in begun:
        part = next(parts[trial] for trial in own.trials if trial in parts)
        loss = "" if own.log10_loss is None else f", the last at log10 L {own.log10_loss:.2f}"
        console.print(
            f"Begun: {plural(len(own.trials), 'trial')} of {escape(part)}, stopped at step {own.step:,} after "
            f"{plural(own.readings, 'reading')}{loss}.",
            soft_wrap=True,
        )
    for group, failure in follower.failures.items():
        sentence = f"Group {group} ({plural(len(failure.trials), 'trial')}) failed: {failure.sentence}"
        console.print(sentence, style="red", markup=False, soft_wrap=True)
        more = f"  more in {store.path / 'failures' / group}.txt"
        console.print(more, style="dim", markup=False, soft_wrap=True)
    for sentence in store.problems.values():
        console.print(sentence, style="red", markup=False, soft_wrap=True)
    for sentence in store.notes.values():
        console.print(sentence, style="yellow", markup=False, soft_wrap=True)
