"""What a report is about, gathered from a store: studies, verdicts, figures, grids, origins, problems."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from undertow.config.study_names import OWN_SEEDS
from undertow.core.canonical import plain
from undertow.report.figures import drawn
from undertow.report.grids import browsable
from undertow.report.interaction import interactive, panel_columns
from undertow.report.origins import Origin, origin, rerun, study_file
from undertow.report.own_curves import curves_of_measures
from undertow.report.pool import DataPool
from undertow.report.printed_numbers import PrintedNumber, printed_numbers

if TYPE_CHECKING:
    import polars

    from undertow.store.stored_study import StoredStudy
    from undertow.store.tolerant import ReadableStore
    from undertow.studies.kit.ledger import Entry
    from undertow.studies.kit.reproduction import Reproduction
    from undertow.studies.kit.study import Figure

__all__ = ["Contents", "Picture", "Run", "gather"]


@dataclass(frozen=True)
class Picture:
    """A figure in one variant: its Vega-Lite source, or the sentence that says why there is none."""

    name: str
    caption: str
    spec: dict[str, Any] | None
    columns: int = 1
    problem: str = ""


@dataclass(frozen=True)
class Run:
    """A study in one variant at one scale: how far it is, what it found, where its numbers come from.

    ``rank`` is the variant's place among the study's, which lists the paper's own first.
    """

    study: str
    variant: str
    scale: str
    rank: int
    title: str
    summary: str
    source: str
    meaning: str
    seed_set: str
    parts: tuple[StoredStudy, ...]
    counts: Counter[str]
    entries: tuple[Entry, ...]
    pictures: tuple[Picture, ...]
    origin: Origin
    command: str
    file: str
    printed: tuple[PrintedNumber, ...] = ()

    @property
    def trials(self) -> int:
        """How many trials belong to it, finished or not."""
        return sum(self.counts.values())

    @property
    def verdicts(self) -> Counter[str]:
        """How many claims hold, fail or are undecided; checks are no verdicts."""
        return Counter(str(entry.verdict) for entry in self.entries if not entry.is_check)

    @property
    def checks(self) -> Counter[str]:
        """How many checks are as they must be, or violated."""
        return Counter(str(entry.verdict) for entry in self.entries if entry.is_check)


@dataclass(frozen=True)
class Contents:
    """Everything a report shows; ``tables`` is the data of all figures.

    ``networks`` are all trials that the runs ask for and ``origin`` is that of those which are there, each counted
    once: variants may share trials.
    """

    path: str
    runs: tuple[Run, ...]
    networks: Counter[str]
    origin: Origin
    tables: dict[str, Any]
    grids: list[dict[str, Any]]
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def gather(store: ReadableStore, judged: Sequence[tuple[Reproduction, Sequence[Entry]]]) -> Contents:
    """The contents of a report: ``judged`` are the studies that undertow knows, with their verdicts."""
    pool = DataPool()
    known = {part.label for reproduction, _ in judged for part in reproduction.parts}
    studies = store.studies()
    # A store of another version may hold parts that the study no longer has: those are drawn like one's own.
    runs = [_known(store, each, entries, pool) for each, entries in judged if each.parts]
    runs += [_own(store, stored, pool) for stored in studies if stored.label not in known]
    runs.sort(key=lambda run: (run.study, run.scale, run.rank, run.seed_set != OWN_SEEDS, run.seed_set))
    shown = [part for run in runs for part in run.parts]
    grids, notes = browsable(store, shown)
    return Contents(
        path=str(store.path),
        runs=tuple(runs),
        networks=_counts(store, shown),
        origin=_origin(store, shown),
        tables=pool.tables,
        grids=grids,
        problems=tuple(_problems(store, runs)),
        notes=(*notes, *store.notes.values()),
    )


def _known(store: ReadableStore, reproduction: Reproduction, entries: Sequence[Entry], pool: DataPool) -> Run:
    study = reproduction.study
    pictures = []
    for figure in study.figures:
        frame = reproduction.frame(figure.parts, so_far=figure.so_far)
        if reproduction.begun(figure.parts) and not frame.is_empty():
            pictures.append(_picture_of(figure, frame, pool))
    return Run(
        study=study.name,
        variant=reproduction.variant,
        scale=reproduction.scale,
        rank=list(study.variants).index(reproduction.variant),
        title=study.title,
        summary=study.summary,
        source=study.source,
        meaning=study.variants.get(reproduction.variant, ""),
        seed_set=reproduction.seed_set,
        parts=reproduction.parts,
        counts=_counts(store, reproduction.parts),
        entries=tuple(entries),
        pictures=tuple(pictures),
        origin=_origin(store, reproduction.parts),
        command=rerun(
            reproduction.parts[0], runs=str(store.path), known=True, parts=_parts_to_name(reproduction)
        ),
        file="",
        printed=printed_numbers(reproduction),
    )


def _parts_to_name(reproduction: Reproduction) -> list[str]:
    """The parts that were begun, where those are not all that the study has in this variant."""
    begun = [part.part for part in reproduction.parts]
    whole = reproduction.study.settings(reproduction.scale, reproduction.variant)
    return [] if set(whole) <= set(begun) else begun


_OWN = "These trials come with no claims and no figures: their measures are drawn over training."
_OWN_LOOP = "They were trained by a loop of somebody's own, which undertow cannot run again."


def _own(store: ReadableStore, stored: StoredStudy, pool: DataPool) -> Run:
    frame = store.frame(stored)
    axes = list(stored.trials[0][1]) if stored.trials else []
    curves = [] if frame.is_empty() else curves_of_measures(frame, axes)
    return Run(
        study=stored.name,
        variant=stored.variant,
        scale=stored.scale,
        rank=0,
        title=stored.name if stored.part == "main" else f"{stored.name}, {stored.part}",
        summary=_OWN if stored.can_be_run else f"{_OWN} {_OWN_LOOP}",
        source="",
        meaning="",
        seed_set=stored.seed_set,
        parts=(stored,),
        counts=_counts(store, (stored,)),
        entries=(),
        pictures=tuple(_picture(name, caption, spec, pool) for name, caption, spec in curves),
        origin=_origin(store, (stored,)),
        command=rerun(stored, runs=str(store.path), known=False) if stored.can_be_run else "",
        file=study_file(stored.settings) if stored.can_be_run else "",
    )


def _picture_of(figure: Figure, frame: polars.DataFrame, pool: DataPool) -> Picture:
    try:
        spec = drawn(figure, frame)
    # Records of an unfinished study can lack whatever a figure relies on; the other figures are still good.
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        problem = f"This figure cannot be drawn from the records that are there ({reason})."
        return Picture(figure.name, figure.caption, None, problem=problem)
    training = frame.filter(frame["status"] == "unfinished")["trial"].n_unique()
    still = (
        f" ({training} of {frame['trial'].n_unique()} networks are still being trained)" if training else ""
    )
    return _picture(figure.name, f"{figure.caption}{still}", spec, pool)


def _picture(name: str, caption: str, spec: dict[str, Any], pool: DataPool) -> Picture:
    lean, rows = pool.take(spec)
    return Picture(name, caption, plain(interactive(lean)), panel_columns(lean, rows))


def _counts(store: ReadableStore, parts: Sequence[StoredStudy]) -> Counter[str]:
    trials = dict.fromkeys(trial for part in parts for trial, _ in part.trials)  # parts may share some
    return Counter(
        store.trial(trial).status["status"] if trial in store else _absence(store, trial) for trial in trials
    )


def _absence(store: ReadableStore, trial: str) -> str:
    return "damaged" if trial in store.problems else "missing"


def _origin(store: ReadableStore, parts: Sequence[StoredStudy]) -> Origin:
    trials = dict.fromkeys(trial for part in parts for trial, _ in part.trials if trial in store)
    return origin(store.trial(trial).provenance for trial in trials)


def _problems(store: ReadableStore, runs: Sequence[Run]) -> list[str]:
    sentences = list(store.problems.values())
    for run in runs:
        missing = run.counts["missing"] + run.counts["damaged"]
        if missing:
            other = "" if run.seed_set == OWN_SEEDS else f", seeds {run.seed_set}"
            where = f"{run.study}, variant {run.variant}, scale {run.scale}{other}"
            so = ", so claims that need them are undecided" if run.entries else ""
            sentences.append(
                f"{missing:,} of {run.trials:,} trials of {where} are not there{so}: "
                f"go on with `{shlex.join(['undertow', 'resume', str(store.path)])}`."
            )
    return sentences
