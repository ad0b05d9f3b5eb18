"""Parts of a study within a budget of seconds, and where these go: training and every measure, group by group.

Everything goes the way of `undertow reproduce`: same trials, same store, weights not kept. It needs neither tables nor
figures, so that a bare GPU machine can run it, and what it leaves in ``--runs`` can be judged elsewhere. The times are
those that every trial's provenance holds.

    python benchmarks/study_parts.py                                                  smoke scale of feature averaging
    python benchmarks/study_parts.py --scale paper --parts min-vidal slabs --runs RUNS
    python benchmarks/study_parts.py --scale laptop --first-seed 100 --runs RUNS      the same on other seeds
    CUDA_VISIBLE_DEVICES= python benchmarks/study_parts.py --workers 16 --runs RUNS   on the cores, group by group

With several workers the time of a group is what its process took, and the last line the time of all.

On a machine that forgets everything between two calls (docs/cluster.md): what was brought from it is taken up, parts
run in the order in which they stand, each within its share of the seconds, and what is new comes into files that can be
sent. Time that a part has left goes to the next ones, and then to those that were stopped. A part may name its variant
and its study:

    python benchmarks/study_parts.py --study margin --scale paper --parts longest=300 table optimisers:paper:long-adam \
        --runs RUNS --unpack carried --pack new --seconds-budget 540

With ``--seconds-budget 0`` nothing is run but taken up and packed: at home, into the same folder to have it once.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from undertow.config.grid import Group, StudyConfig
from undertow.config.seed_sets import replicated
from undertow.core.errors import ConfigError, StoreError, UndertowError
from undertow.execution.engines import engine
from undertow.execution.engines.worker import Engine
from undertow.execution.interrupt import Interrupt
from undertow.execution.sweep import sweep
from undertow.execution.watch import Watch
from undertow.store.carried import Packer, take_up
from undertow.store.store import Store
from undertow.store.unfinished import checkpoint_files
from undertow.studies import find

_NOTES = 10.0  # seconds between two lines on what is running
_PACKS = 120.0  # and between two times of packing
_MIB = 2**20


class Clock(Watch):
    """Prints what each group cost once it has ended, from its provenance, and adds it up.

    ``now_and_then`` is called whenever a group has ended or is on its way.
    """

    def __init__(
        self,
        store: Store,
        studies: tuple[StudyConfig, ...],
        workers: int | None = None,
        now_and_then: Callable[[], None] = lambda: None,
    ) -> None:
        self.store, self.workers, self._now_and_then = store, workers, now_and_then
        self.parts = {
            trial.id: study.part for study in studies for group in study.groups for trial in group.trials
        }
        self.seconds: Counter[str] = Counter()
        self.about: dict[str, str] = {}  # how far each group is
        self._waiting: set[str] = set()
        self.began = self.first = self.told = time.monotonic()

    def describe(self, group: Group) -> str:
        return f"{self.parts[group.trials[0].id]:>18} × {len(group.trials)}"

    def progress(self, group: Group, step: int, steps: int, note: str = "") -> None:
        self._now_and_then()
        self.about[group.id] = note or f"step {step:,} of {steps:,}"
        if time.monotonic() - self.told > _NOTES:
            self.told = time.monotonic()
            print(
                f"{self.told - self.first:7.0f} s {self.describe(group)}: {self.about[group.id]}", flush=True
            )

    def waiting(self, why: Sequence[str]) -> None:
        for sentence in set(why) - self._waiting:
            print(f"waiting: {sentence}", flush=True)
        self._waiting.update(why)

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
        self._now_and_then()


def run(
    store: Store,
    studies: tuple[StudyConfig, ...],
    clock: Clock,
    *,
    budget: float,
    workers: int | None = None,
    using: Engine | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> float:
    """Run what the store lacks, here and on the GPU if there is one, in processes or as told; the seconds it took.

    What is stopped when the time is over, or by ``stop``, says how far it is: it goes on from there.
    """
    chosen = using or engine("processes" if workers else "here", workers=workers, keep_weights=False)
    began = time.monotonic()
    outcome = sweep(
        store,
        *studies,
        engine=chosen,
        stop=lambda: stop() or time.monotonic() - began > budget,
        watch=lambda _: clock,
    )
    for note in outcome.notes:
        print(note)
    for group in (group for study in studies for group in study.groups if outcome.interrupted):
        files = checkpoint_files(store.path / "work" / group.id)
        if files is not None and not all(trial.id in store for trial in group.trials):
            about = clock.about.get(group.id, "as it was brought")
            size = sum(map(len, files.values())) / 1e6
            print(f"{clock.describe(group)}: {about}; the same command goes on from its {size:.1f} MB")
    print(f"{outcome.finished} of {outcome.trials} trials finished", flush=True)
    return time.monotonic() - began


@dataclass(frozen=True)
class Job:
    """What is run together, and for how many seconds before it is the next one's turn."""

    studies: tuple[StudyConfig, ...]
    seconds: float = math.inf


def jobs_of(options: argparse.Namespace) -> list[Job]:
    """The parts that were named, in their order: one job where nothing is said of seconds, otherwise one each."""
    found: list[Job] = []
    for words in options.parts or [""]:
        name, _, share = words.partition("=")
        *others, part = name.split(":")
        study, variant = [options.study, options.variant][: 2 - len(others)] + others
        try:
            seconds = float(share) if share else math.inf
        except ValueError:
            raise ConfigError(f"{words}: {share!r} is no number of seconds; write {name}=300.") from None
        studies = find(study).grids(options.scale, variant, parts=[part] if part else [])
        found.append(Job(replicated(studies, first=options.first_seed)[0], seconds))
    if all(math.isinf(job.seconds) for job in found):
        return [Job(tuple(study for job in found for study in job.studies))]
    return found


def in_turn(
    jobs: Sequence[Job],
    work: Callable[[tuple[StudyConfig, ...], float], float],
    *,
    ends: float,
    stop: Callable[[], bool],
) -> None:
    """``work(studies, budget)`` on each job for its share, and then, while there is time, on those that were stopped.

    A job without a share has what those after it leave.
    """
    waiting, shared = list(jobs), True
    while waiting:
        again = []
        for place, job in enumerate(waiting):
            left = ends - time.monotonic()
            later = sum(each.seconds for each in waiting[place + 1 :] if math.isfinite(each.seconds))
            share = job.seconds if math.isfinite(job.seconds) else left - later
            budget = min(share, left) if shared else left
            if left <= 0 or stop():
                return
            if budget <= 0 or work(job.studies, budget) > budget:
                again.append(job)
        waiting, shared = again, False


class Carrier:
    """Takes up what was brought, and packs what there is: at the end, and every two minutes for who is killed."""

    def __init__(self, store: Store, options: argparse.Namespace, jobs: Sequence[Job]) -> None:
        self._brought = take_up(store, options.unpack) if options.unpack else None
        self._packer = None
        self._packed = time.monotonic()
        if self._brought:
            found = f"{len(self._brought.trials)} trials and {len(self._brought.steps)} checkpoints"
            print("\n".join((f"brought in {options.unpack}: {found}", *self._brought.notes)), flush=True)
        if options.pack:
            groups = [group for job in jobs for study in job.studies for group in study.groups]
            self._packer = Packer(
                store,
                options.pack,
                largest=int(options.largest_file * _MIB),
                most=int(options.most // options.largest_file),
                brought=self._brought,
                trials=[trial.id for group in groups for trial in group.trials] if options.parts else None,
                first=[group.id for group in groups],
            )

    def now_and_then(self) -> None:
        if self._packer and time.monotonic() - self._packed > _PACKS:
            try:
                self._packer.write()
            except StoreError as error:  # a full disk: training goes on, and the end may find room
                print(error, flush=True)
            self._packed = time.monotonic()

    def conclude(self) -> None:
        if self._packer:
            packed = self._packer.write()
            what = f"{packed.trials} trials and {packed.checkpoints} checkpoints"
            print(f"packed: {what} in {len(packed.files)} files, {packed.bytes / 1e6:.1f} MB")
            print("".join(f"{note}\n" for note in packed.notes), end="", flush=True)


def machine() -> str:
    gpu = torch.cuda.is_available()
    return torch.cuda.get_device_name() if gpu else f"{torch.get_num_threads()} CPU threads"


def read_options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--study", default="feature-averaging")
    parser.add_argument("--scale", choices=("smoke", "laptop", "paper"), default="smoke")
    parser.add_argument("--variant", default="paper")
    parser.add_argument(
        "--parts", nargs="+", default=[], help="[[study:]variant:]part[=seconds], the most important first"
    )
    parser.add_argument("--first-seed", type=int, help="replicate on as many seeds from this one on")
    parser.add_argument("--runs", type=Path, help="keep the trials in this folder")
    parser.add_argument("--seconds-budget", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--workers", type=int, help="so many processes; without, this one and its GPU")
    parser.add_argument("--unpack", type=Path, help="a folder of what was packed before: go on from there")
    parser.add_argument("--pack", type=Path, help="put what is new into files in this folder")
    parser.add_argument("--largest-file", type=float, default=16, help="of --pack, in MiB")
    parser.add_argument("--most", type=float, default=64, help="all files of --pack together, in MiB")
    return parser.parse_args(words)


def main() -> None:
    began, options = time.monotonic(), read_options()
    jobs = jobs_of(options)
    if options.seconds_budget > 0:
        print(
            f"{options.study}, {options.scale}, {options.variant}, on {machine()}, torch {torch.__version__}"
        )
    with tempfile.TemporaryDirectory() as scratch, Interrupt() as interrupt:
        store = Store(options.runs or scratch)
        carrier = Carrier(store, options, jobs)
        every = tuple(study for job in jobs for study in job.studies)
        clock = Clock(store, every, options.workers, carrier.now_and_then)

        def work(studies: tuple[StudyConfig, ...], budget: float) -> float:
            return run(
                store, studies, clock, budget=budget, workers=options.workers, stop=interrupt.requested
            )

        in_turn(jobs, work, ends=began + options.seconds_budget, stop=interrupt.requested)
        carrier.conclude()
    for name, seconds in sorted(clock.seconds.items(), key=lambda item: -item[1]):
        print(f"{name:>20} {seconds:8.1f} s")
    print(f"{'together':>20} {time.monotonic() - began:8.1f} s")


if __name__ == "__main__":
    try:
        main()
    except UndertowError as error:
        raise SystemExit(str(error)) from None
