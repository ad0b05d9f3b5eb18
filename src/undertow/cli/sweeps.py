"""Running studies from the command line: progress, a clean stop, and what to do next."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from undertow.cli.show import print_ledger
from undertow.runs.engines import engine as make_engine
from undertow.runs.grid import StudyConfig
from undertow.runs.interrupt import Interrupt
from undertow.runs.store import Store
from undertow.runs.sweep import SweepOutcome, sweep
from undertow.runs.watch import Bars, Watch
from undertow.studies import STUDIES

__all__ = ["run_studies"]

DONE, INCOMPLETE, INTERRUPTED = 0, 1, 130


def run_studies(
    runs: Path, studies: list[StudyConfig], *, engine: str, workers: int | None, address: str | None
) -> int:
    """Bring the studies to their ends, one after the other, and return the exit code."""
    console = Console(highlight=False, soft_wrap=True)
    store = Store(runs)
    chosen = make_engine(engine, workers=workers, address=address)
    code = DONE
    with Interrupt() as interrupt:
        for study in studies:

            def bars(done: int, study: StudyConfig = study) -> Watch:
                return Bars(study.label, trials=len(study.points), done=done, console=console)

            outcome = sweep(store, study, engine=chosen, stop=interrupt.requested, watch=bars)
            _tell(console, study, outcome)
            if outcome.interrupted:
                command = _go_on(runs, engine=engine, workers=workers, address=address)
                console.print(f"Stopped; nothing is lost. Go on with:  [bold]{escape(command)}[/]")
                return INTERRUPTED
            if not outcome.complete:
                code = INCOMPLETE
    _conclude(console, store, studies)
    return code


def _tell(console: Console, study: StudyConfig, outcome: SweepOutcome) -> None:
    for note in outcome.notes:
        console.print(escape(note), style="yellow")
    console.print(f"{study.label}: {outcome.finished} of {outcome.trials} trials finished.")


def _conclude(console: Console, store: Store, studies: list[StudyConfig]) -> None:
    """Figures and verdicts of studies that undertow knows; where the records are, of any other."""
    ran = {(study.name, study.variant, study.scale) for study in studies}
    if any(name in STUDIES for name, _, _ in ran):
        from undertow.report.figures import draw
        from undertow.studies.ledger import judge
        from undertow.studies.reproduction import reproductions

        for each in reproductions(store):
            if (each.study.name, each.variant, each.scale) in ran:
                pictures = draw(each)
                print_ledger(Console(highlight=False), judge(each))  # wrapped: sentences are long
                if pictures:
                    console.print(f"Figures:  {escape(str(pictures[0].parent))}")
        console.print(f"Next:  undertow claims {escape(shlex.quote(str(store.path)))}")
    if any(name not in STUDIES for name, _, _ in ran):
        console.print(f"Records:  undertow.runs.Store({str(store.path)!r}).frame()")


def _go_on(runs: Path, *, engine: str, workers: int | None, address: str | None) -> str:
    parts = ["undertow", "resume", str(runs)]
    if engine != "here":
        parts += ["--engine", engine]
    if workers is not None:
        parts += ["--workers", str(workers)]
    if address is not None:
        parts += ["--address", address]
    return shlex.join(parts)
