"""Where the seconds of a study go: training and every measure, group by group.

Everything goes the way of `undertow reproduce`: same trials, same store, weights not kept. It needs neither tables nor
figures, so that a bare GPU machine can run it, and what it leaves in ``--runs`` can be judged elsewhere. The times are
those that every trial's provenance holds.

    python benchmarks/study_parts.py                                                  smoke scale of feature averaging
    python benchmarks/study_parts.py --scale paper --parts min-vidal slabs --runs RUNS
    python benchmarks/study_parts.py --scale laptop --first-seed 100 --runs RUNS      the same on other seeds
    CUDA_VISIBLE_DEVICES= python benchmarks/study_parts.py --workers 16 --runs RUNS   on the cores, group by group

With several workers the time of a group is what its process took, and the last line the time of all.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from undertow.config.grid import Group, StudyConfig
from undertow.config.seed_sets import replicated
from undertow.execution.engines import engine
from undertow.execution.engines.worker import Engine
from undertow.execution.sweep import sweep
from undertow.execution.watch import Watch
from undertow.store.store import Store
from undertow.studies import find

_NOTES = 10.0  # seconds between two lines on a training that goes on until a loss is reached


class Clock(Watch):
    """Prints what each group cost once it has ended, from its provenance, and adds it up."""

    def __init__(self, store: Store, studies: tuple[StudyConfig, ...], workers: int | None = None) -> None:
        self.store, self.workers = store, workers
        self.parts = {
            trial.id: study.part for study in studies for group in study.groups for trial in group.trials
        }
        self.seconds: Counter[str] = Counter()
        self.began = self.first = self.told = time.monotonic()

    def describe(self, group: Group) -> str:
        return f"{self.parts[group.trials[0].id]:>18} × {len(group.trials)}"

    def progress(self, group: Group, step: int, steps: int, note: str = "") -> None:  # noqa: ARG002
        if note and time.monotonic() - self.told > _NOTES:
            self.told = time.monotonic()
            print(f"{self.told - self.first:7.0f} s {self.describe(group)}: {note}", flush=True)

    def ended(self, group: Group, *, finished: bool) -> None:
        if not finished:
            return
        wall, self.began = time.monotonic() - self.began, time.monotonic()
        cost = self.store.trial(group.trials[0].id).provenance["cost"]
        wall = len(group.trials) * cost["seconds"] if self.workers else wall
        split = {"training": cost["training"], **cost["measuring"]}
        seconds = {name: len(group.trials) * each for name, each in split.items()}
        # None is left where the group was resumed, or run by another process on the same folder.
        seconds["rest"] = max(wall - sum(seconds.values()), 0.0)
        self.seconds.update(seconds)
        shown = "  ".join(f"{name} {each:.2f}" for name, each in seconds.items())
        print(f"{self.describe(group)}: {wall:7.2f} s   {shown}", flush=True)


def run(
    store: Store,
    studies: tuple[StudyConfig, ...],
    clock: Clock,
    *,
    budget: float,
    workers: int | None = None,
    using: Engine | None = None,
) -> float:
    """Run what the store lacks, here and on the GPU if there is one, in processes or as told; the seconds it took."""
    chosen = using or engine("processes" if workers else "here", workers=workers, keep_weights=False)
    began = time.monotonic()
    outcome = sweep(
        store,
        *studies,
        engine=chosen,
        stop=lambda: time.monotonic() - began > budget,
        watch=lambda _: clock,
    )
    for note in outcome.notes:
        print(note)
    print(f"{outcome.finished} of {outcome.trials} trials finished")
    return time.monotonic() - began


def machine() -> str:
    gpu = torch.cuda.is_available()
    return torch.cuda.get_device_name() if gpu else f"{torch.get_num_threads()} CPU threads"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--study", default="feature-averaging")
    parser.add_argument("--scale", choices=("smoke", "laptop", "paper"), default="smoke")
    parser.add_argument("--variant", default="paper")
    parser.add_argument("--parts", nargs="+", default=[])
    parser.add_argument("--first-seed", type=int, help="replicate on as many seeds from this one on")
    parser.add_argument("--runs", type=Path, help="keep the trials in this folder")
    parser.add_argument("--seconds-budget", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--workers", type=int, help="so many processes; without, this one and its GPU")
    options = parser.parse_args()

    print(f"{options.study}, {options.scale}, {options.variant}, on {machine()}, torch {torch.__version__}")
    studies = find(options.study).grids(options.scale, options.variant, parts=options.parts)
    studies, _ = replicated(studies, first=options.first_seed)
    with tempfile.TemporaryDirectory() as scratch:
        store = Store(options.runs or scratch)
        clock = Clock(store, studies, options.workers)
        whole = run(store, studies, clock, budget=options.seconds_budget, workers=options.workers)
    for name, seconds in sorted(clock.seconds.items(), key=lambda item: -item[1]):
        print(f"{name:>20} {seconds:8.1f} s")
    print(f"{'together':>20} {whole:8.1f} s")


if __name__ == "__main__":
    main()
