"""The tour: every study there is at its smallest honest size, on data that needs no download, and one report."""

from __future__ import annotations

import sys
import textwrap
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from undertow.cli.sweeps import run_parts
from undertow.runs.engines import engine
from undertow.runs.interrupt import Interrupt
from undertow.runs.store import Store
from undertow.studies import STUDIES, find
from undertow.studies.claims import Verdict
from undertow.studies.ledger import Entry, judge
from undertow.studies.reproduction import reproductions
from undertow.studies.study import Study

__all__ = ["main"]

_MARKS = {
    Verdict.HOLDS: "[green]holds[/]    ",
    Verdict.FAILS: "[red]fails[/]    ",
    Verdict.UNDECIDED: "undecided",
}
_INTERRUPTED = 130


def main(folder: Path = Path("out/tour")) -> int:
    """Watch three networks learn, run every study at scale ``smoke``, and end in one report."""
    from undertow.tour.look import look

    console = Console(highlight=False)
    begin = time.perf_counter()
    console.print("[bold]undertow[/]: the pull you do not see.\n")
    console.rule("1  Watching three networks learn", align="left")
    picture = look(console, folder)
    store = Store(folder / "runs")
    with Interrupt() as interrupt:
        for number, name in enumerate(STUDIES, start=2):
            study = find(name)
            console.print()
            console.rule(f"{number}  {escape(study.title)}", align="left")
            _introduce(console, study)
            parts = study.grids("smoke", _variant(study))
            outcome = run_parts(store, parts, engine=engine("auto"), interrupt=interrupt, console=console)
            if outcome.interrupted:
                console.print("Stopped; nothing is lost. [bold]undertow tour[/] goes on from here.")
                return _INTERRUPTED
            _verdicts(console, store, study)
    _report(console, store, folder, picture, begin)
    return 0


def _introduce(console: Console, study: Study) -> None:
    console.print(escape(study.summary or study.title))
    console.print(f"[dim]{escape(study.source)}. Here: {escape(study.costs['smoke'])}.[/]")


def _variant(study: Study) -> str:
    return next(iter(study.variants))


def _verdicts(console: Console, store: Store, study: Study) -> None:
    entries = [
        entry for each in reproductions(store) if each.study.name == study.name for entry in judge(each)
    ]
    for entry in entries:
        console.print(_line(entry, console.width))


def _line(entry: Entry, width: int) -> str:
    room = max(width - 32, 40)
    text = textwrap.shorten(entry.claim.text, room, placeholder=" …")
    return f"  {_MARKS[entry.finding.verdict]}  [bold]{entry.claim.id:16}[/] {escape(text)}"


def _report(console: Console, store: Store, folder: Path, picture: Path, begin: float) -> None:
    from undertow.report.page import write_report

    report = write_report(store, folder / "report.html")
    console.print()
    console.rule("The report", align="left")
    console.print(
        "These sizes show that everything works and where each effect points; the verdicts that count come from "
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
