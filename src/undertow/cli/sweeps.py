"""Running studies from the command line: progress, a clean stop, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from undertow.cli.bringing import bring_data
from undertow.cli.run_options import HowToRun
from undertow.cli.show import print_ledger, print_problems
from undertow.config.grid import StudyConfig
from undertow.config.seed_sets import refuse_overlap, replicated
from undertow.core.errors import ConfigError
from undertow.core.validation import validate
from undertow.data.offline import staying_offline
from undertow.execution.engines import engine as make_engine
from undertow.execution.engines.worker import Engine
from undertow.execution.interrupt import Interrupt
from undertow.execution.sweep import SweepOutcome, sweep
from undertow.execution.watch import Bars, Lines, Watch
from undertow.store.store import Store
from undertow.store.tolerant import ReadableStore
from undertow.studies import STUDIES
from undertow.studies.kit.ledger import judge
from undertow.studies.kit.other_data import refuse_other_data
from undertow.studies.kit.reproduction import Reproduction, reproductions

__all__ = ["on_seeds", "resume_studies", "run_parts", "run_studies"]

DONE, INCOMPLETE, INTERRUPTED = 0, 1, 130


def on_seeds(
    runs: Path, grids: tuple[StudyConfig, ...], *, count: int | None, first: int | None
) -> tuple[StudyConfig, ...]:
    """The parts of a study on the seeds that are asked for; a sentence for parts that have none, and are left out."""
    if count is not None or first is not None:
        grids, without = replicated(grids, count=count, first=first)
        for part in without:
            print(f"{part} has no axis of seeds: it is the same on every set of them, and left out.")
    if (runs / "studies").is_dir():
        there = ReadableStore(runs).studies()
        refuse_overlap(grids, there)
        refuse_other_data(grids, there)
    return grids


def run_studies(runs: Path, studies: list[StudyConfig], how: HowToRun) -> int:
    """Bring the studies to their ends, and return the exit code."""
    console = Console(highlight=False, soft_wrap=True)
    store = Store(runs)
    chosen = make_engine(how.engine, workers=how.workers, address=how.address, keep_weights=how.weights)
    with staying_offline(how.offline):
        bring_data(store, studies, console)
        with Interrupt() as interrupt:
            outcome = run_parts(store, studies, engine=chosen, interrupt=interrupt, console=console)
    if outcome.interrupted:
        command = shlex.join(["undertow", "resume", str(runs), *how.words()])
        console.print(f"Stopped; nothing is lost. Go on with:  [bold]{escape(command)}[/]")
        return INTERRUPTED
    _conclude(console, store.path, studies)
    return DONE if outcome.complete else INCOMPLETE


def resume_studies(runs: Path, how: HowToRun) -> int:
    """Bring every study of a folder to its end; one that cannot be run again is said, and the others go on."""
    store = ReadableStore(runs)
    studies, refused = [], []
    for stored in store.studies():
        if not stored.can_be_run:
            continue
        try:
            studies.append(validate(StudyConfig, stored.settings))
        except ConfigError as error:
            refused.append(
                f"{stored.label} was written by another version of undertow, and this one cannot run it again: {error} "
                "(What is finished can still be shown, judged and reported.)"
            )
    console = Console(highlight=False, soft_wrap=True)
    for sentence in refused:
        console.print(escape(sentence), style="yellow")
    if refused and not studies:
        return INCOMPLETE
    return run_studies(runs, studies, how) or (INCOMPLETE if store.problems or refused else DONE)


def run_parts(
    store: Store, studies: Sequence[StudyConfig], *, engine: Engine, interrupt: Interrupt, console: Console
) -> SweepOutcome:
    """Sweep over all of the studies at once, showing progress, and say how far each came."""
    names = dict.fromkeys(study.whole for study in studies)
    trials = sum(len(study.points) for study in studies)

    def watch(done: int) -> Watch:
        kind = Bars if console.is_terminal else Lines
        return kind(", ".join(names), trials=trials, done=done, console=console)

    outcome = sweep(store, *studies, engine=engine, stop=interrupt.requested, watch=watch)
    for note in outcome.notes:
        console.print(escape(note), style="yellow")
    for name in names:
        parts = [study for study in studies if study.whole == name]
        finished = [sum(point.trial.id in store for point in part.points) for part in parts]
        short = [
            f"{part.part} {done} of {len(part.points)}"
            for part, done in zip(parts, finished, strict=True)
            if done < len(part.points) and len(parts) > 1
        ]
        lacking = f" ({', '.join(short)})" if short else ""
        due = sum(len(part.points) for part in parts)
        console.print(f"{name}: {sum(finished)} of {due} trials finished{lacking}.")
    return outcome


def _draw(each: Reproduction) -> list[Path]:
    from undertow.report.figures import draw  # altair: nobody waits for it before the training

    return draw(each)


def _conclude(console: Console, runs: Path, studies: list[StudyConfig]) -> None:
    """Figures and verdicts of studies that undertow knows; where the records are, of any other; what is damaged."""
    ran = {(study.name, study.variant, study.scale, study.seed_set) for study in studies}
    store = ReadableStore(runs)  # another study of the folder may be damaged or of another version
    for each in reproductions(store):
        if (each.study.name, each.variant, each.scale, each.seed_set) in ran:
            each.frame([part.part for part in each.parts])  # read once, for both
            with ThreadPoolExecutor(
                1
            ) as beside:  # most of the drawing is compiled code that needs no interpreter
                drawing = beside.submit(_draw, each)
                print_ledger(Console(highlight=False), judge(each))  # wrapped: sentences are long
                pictures = drawing.result()
            if pictures:
                console.print(f"Figures:  {escape(str(pictures[0].parent))}")
    print_problems(store, console)
    if any(name in STUDIES for name, *_ in ran):
        console.print(f"Next:  undertow report {escape(shlex.quote(str(runs)))}")
    if any(name not in STUDIES for name, *_ in ran):
        console.print(f"Records:  undertow.Store({str(runs)!r}).frame()")
