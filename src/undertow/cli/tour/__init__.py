"""The tour: every study there is at its smallest honest size, on data that needs no download, and one report."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from undertow.cli.overview import in_short
from undertow.cli.sweeps import run_parts
from undertow.cli.tour.look import look
from undertow.execution.engines import engine
from undertow.execution.interrupt import Interrupt
from undertow.report.page import write_report
from undertow.report.words import plural
from undertow.store.store import Store
from undertow.studies import STUDIES, find
from undertow.studies.kit.claim import Verdict
from undertow.studies.kit.ledger import judge
from undertow.studies.kit.reproduction import reproductions
from undertow.studies.kit.study import Study

__all__ = ["main"]

_MARKS = {Verdict.HOLDS: "[green]holds[/]", Verdict.FAILS: "[red]fails[/]"}
_INCOMPLETE, _INTERRUPTED = 1, 130
_MOST = 12  # lines of verdicts for a study


def main(folder: Path = Path("out/tour")) -> int:
    """Watch three networks learn, run something of every study, and end in one report."""
    console = Console(highlight=False)
    begin = time.perf_counter()
    console.print("[bold]undertow[/]: the pull you do not see.\n")
    console.rule("1  Watching three networks learn", align="left")
    picture = look(console, folder)
    store = Store(folder / "runs")
    complete = True
    with Interrupt() as interrupt:
        for number, name in enumerate(STUDIES, start=2):
            study = find(name)
            console.print()
            console.rule(f"{number}  {escape(study.title)}", align="left")
            _introduce(console, study)
            scale, parts = study.tour
            grids = study.grids(scale, _variant(study), parts=parts)
            outcome = run_parts(store, grids, engine=engine("auto"), interrupt=interrupt, console=console)
            if outcome.interrupted:
                console.print("Stopped; nothing is lost. [bold]undertow tour[/] goes on from here.")
                return _INTERRUPTED
            complete &= outcome.complete
            _verdicts(console, store, study)
    _report(console, store, folder, picture, begin)
    return 0 if complete else _INCOMPLETE


def _introduce(console: Console, study: Study) -> None:
    console.print(escape(study.summary or study.title))
    scale, parts = study.tour
    here = f"{len(parts)} of its parts, scale {scale}" if parts else f"scale {scale}, {study.costs[scale]}"
    console.print(f"[dim]{escape(study.source)}. Here: {escape(here)}.[/]")


def _variant(study: Study) -> str:
    return next(iter(study.variants))


def _verdicts(console: Console, store: Store, study: Study) -> None:
    entries = [
        entry for each in reproductions(store) if each.study.name == study.name for entry in judge(each)
    ]
    decided = [entry for entry in entries if entry.verdict in _MARKS]
    shown = decided if len(decided) <= _MOST else decided[: _MOST - 1]
    longest = max((len(entry.claim.id) for entry in shown), default=0)
    for entry in shown:
        text = in_short(entry.claim.text, console.width - longest - 11)
        line = f"  {_MARKS[entry.verdict]}  [bold]{entry.claim.id:{longest}}[/]  {escape(text)}"
        console.print(line, soft_wrap=True)
    if len(decided) > len(shown):
        console.print(f"  … and {len(decided) - len(shown)} more verdicts, in the report")
    violated = [entry.claim.id for entry in entries if entry.verdict is Verdict.VIOLATED]
    if violated:
        console.print(f"  [red]checks that are violated: {', '.join(violated)}[/]")
    undecided = sum(entry.verdict is Verdict.UNDECIDED for entry in entries)
    if undecided:
        console.print(f"  [dim]{plural(undecided, 'claim')} undecided at this size[/]")


def _report(console: Console, store: Store, folder: Path, picture: Path, begin: float) -> None:
    report = write_report(store, folder / "report.html")
    console.print()
    console.rule("The report", align="left")
    console.print(
        "Scale smoke shows that everything works and where each effect points; the verdicts that count come from "
        "[bold]--scale laptop[/] and [bold]paper[/]."
    )
    console.print(f"Done in {time.perf_counter() - begin:.0f} s.", soft_wrap=True)
    console.print(f"Picture:  {escape(str(picture))}", soft_wrap=True)
    console.print(f"Report:   [bold]{escape(str(report.resolve()))}[/]", soft_wrap=True)
    command = Path(sys.argv[0]).absolute()
    shown = command.relative_to(Path.cwd()) if command.is_relative_to(Path.cwd()) else command.name
    console.print(
        f"Next:     [bold]{escape(str(shown))} studies[/] lists what can be reproduced, and its costs."
    )
