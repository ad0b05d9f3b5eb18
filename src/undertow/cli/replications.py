"""``undertow claims A --against B``: the verdicts that two ledgers do not share."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from undertow.cli.json_output import print_json
from undertow.cli.show import VERDICT_COLOURS, place, print_problems
from undertow.report import words
from undertow.store.tolerant import ReadableStore
from undertow.studies.kit.ledger import Entry, ledger
from undertow.studies.kit.replication import Change, Comparison, Pair, compare

__all__ = ["print_replication"]


def print_replication(first: Path, second: Path, *, as_json: bool) -> int:
    """What became of the verdicts of one folder on the seeds of another."""
    ledgers = []
    for path in (first, second):
        store = ReadableStore(path)
        ledgers.append(ledger(store))
        print_problems(store, Console(stderr=True))
    found = compare(*ledgers)
    if as_json:
        print_json(found.row())
        return 0
    console = Console(highlight=False)
    if not found.pairs:
        console.print("The two ledgers have no claim in common: they hold other studies, variants or scales.")
        return 0
    changes = [pair for pair in found.pairs if pair.change is not Change.SAME]
    for change, pairs in groupby(changes, key=lambda pair: pair.change):
        listed = list(pairs)
        console.print(f"[bold]{str(change).capitalize()}[/] ({len(listed)})")
        for pair in listed:
            _print_pair(console, pair)
        console.print()
    for sentence in _sentences(found):
        console.print(sentence)
    return 0


def _print_pair(console: Console, pair: Pair) -> None:
    first, second = pair.first, pair.second
    names = ", ".join((first.study, first.variant, first.scale))
    check = ", a check" if first.is_check else ""
    console.print(f"  [bold]{first.claim.id}[/]  {escape(first.claim.text)} [dim]({escape(names)}{check})[/]")
    for entry in (first, second):
        line = f"[{VERDICT_COLOURS[entry.verdict]}]{entry.verdict}[/] on {_seeds(entry)}: {_evidence(entry)}"
        console.print(Padding(line, (0, 0, 0, 6)))


def _evidence(entry: Entry) -> str:
    numbers = "; ".join(filter(None, (words.finding(entry.finding), words.among(entry))))
    return numbers if entry.finding.p is not None else escape(f"{numbers}; {entry.finding.note}")


def _seeds(entry: Entry) -> str:
    """The seeds as one says them: a range where they are one."""
    seeds = entry.seeds
    if len(seeds) > 1 and seeds == tuple(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]} … {seeds[-1]}"
    return f"seeds {', '.join(map(str, seeds))}" if seeds else place(entry)


def _sentences(found: Comparison) -> list[str]:
    judged = len(found.judged)
    turned, lost = found.count(Change.OPPOSITE), found.count(Change.LOST)
    share = f" ({turned / judged:.1%})" if judged else ""
    said = [
        f"Of {words.plural(judged, 'verdict')} that both ledgers judged, {turned}{share} turned into the opposite and "
        f"{lost} became undecided.",
        f"The first ledger's own seeds predict {found.expected_undecided:.1f} undecided, with 95 % at most "
        f"{found.most_undecided} (more where claims share networks), and {found.expected_opposite:.2g} opposite.",
    ]
    gained, unjudged = found.count(Change.GAINED), found.count(Change.UNJUDGED)
    if gained:
        said.append(f"{words.plural(gained, 'claim')} that the first left undecided: the second decides.")
    if unjudged:
        said.append(
            f"{words.plural(unjudged, 'verdict')} of the first: the second could not judge, and says why."
        )
    for number, name in zip(found.alone, ("first", "second"), strict=True):
        if number:
            said.append(f"{words.plural(number, 'claim')} only in the {name} ledger.")
    if found.shared_seeds:
        some = ", ".join(map(str, found.shared_seeds[:5])) + (" …" if len(found.shared_seeds) > 5 else "")
        said.append(f"Seeds {some} are in both: that is no replication. Run others with `--first-seed`.")
    return said
