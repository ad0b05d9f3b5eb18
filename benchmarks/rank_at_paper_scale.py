"""The stable-rank study at paper scale, both variants: pictures and lymphoma on the GPU, everything else on the cores.

    python benchmarks/rank_at_paper_scale.py --runs RUNS --seconds-budget 420 --workers 13 --pack new

What matters most comes first, on the GPU as on the cores. Figure 6 trains the networks of both variants as one batch:
they differ in their starts alone, and a step of twelve takes little longer than one of six. Every group is stored when
it has ended, and weights are not kept; what has not ended after ``--seconds-budget`` goes on from its checkpoint, where
that finds a place in the files of 16 MiB that ``--pack`` writes. Runs that are there already are not made again. With
``--scale laptop`` and ``--first-seed 100`` it is that scale, on other seeds. Taken up, here or there, it is by

    python benchmarks/study_parts.py --runs rank --unpack new --seconds-budget 0 && undertow claims rank
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from study_parts import Clock, machine, run

from undertow.config.grid import Group, StudyConfig
from undertow.config.seed_sets import replicated
from undertow.execution.engines.processes import Processes
from undertow.execution.engines.worker import attempt
from undertow.store.carried import Packer
from undertow.store.store import Store
from undertow.studies import find
from undertow.studies.kit.presence import present

_NEVER = 1e9  # seconds between checkpoints: they would not outlive the machine
_FILE, _FILES = 16 * 2**20, 4  # of --pack
_ON_GPU = (
    *("authors:mnist", "authors:cifar10", "both:cifar10-long", "authors:dlbcl", "paper:mnist", "paper:dlbcl"),
    *("paper:cifar10", "authors:fashion-mnist", "paper:fashion-mnist"),
)
_SMALL = ("rest-trained", "rest", "main", "fixed-head", "glorot", "rest-glorot", "cosines", "autism")
_ON_CORES = (
    *(f"authors:{part}" for part in _SMALL),
    *(f"paper:{part}" for part in (*_SMALL, "law", "intervention")),
)


def studies_of(job: str, scale: str, first_seed: int | None = None) -> tuple[StudyConfig, ...]:
    """The grids of ``variant:part``, or of the part in both variants; on other seeds where a first one is given."""
    variant, part = job.split(":")
    variants = ("paper", "authors") if variant == "both" else (variant,)
    grids = (grid for each in variants for grid in find("stable-rank").grids(scale, each, parts=[part]))
    return replicated(grids, first=first_seed)[0]


def groups_of(studies: tuple[StudyConfig, ...]) -> Iterator[Group]:
    """Groups whose networks differ in their starts alone are one."""
    for alike in zip(*(study.groups for study in studies), strict=True):
        yield Group(tuple(trial for group in alike for trial in group.trials))


def on_this_device(jobs: list[str], scale: str, store: Store, *, ends: float) -> None:
    """One group after the other, until time is up."""
    for job in jobs:
        if not present(job.split(":")[1].removesuffix("-long")):
            print(f"{job}: the data are not here", flush=True)
            continue
        studies = studies_of(job, scale)
        for study in studies:
            store.add_study(study)
        clock = Clock(store, studies)
        for group in groups_of(studies):
            if time.monotonic() > ends:
                return
            outcome = attempt(
                store,
                group,
                stop=lambda: time.monotonic() > ends,
                on_progress=partial(clock.progress, group),
                checkpoint_seconds=_NEVER,
                keep_weights=False,
            )
            clock.ended(group, finished=outcome.status == "finished")
            if outcome.status != "finished":
                print(f"{job}: {outcome.status} {' '.join(outcome.notes)}", flush=True)


def on_cores(
    jobs: list[str], scale: str, store: Store, *, first_seed: int | None, workers: int, budget: float
) -> None:
    """Everything at once, in so many processes."""
    grids = tuple(grid for job in jobs for grid in studies_of(job, scale, first_seed))
    engine = Processes(workers, checkpoint_seconds=_NEVER, keep_weights=False)
    seconds = run(store, grids, Clock(store, grids, workers), budget=budget, using=engine)
    print(f"on the cores together {seconds:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scale", choices=("smoke", "laptop", "paper"), default="paper")
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--on-gpu", nargs="*", default=_ON_GPU, help="variant:part, the most important first")
    parser.add_argument("--on-cores", nargs="*", default=_ON_CORES)
    parser.add_argument("--first-seed", type=int, help="as many seeds from this one on, on the cores")
    parser.add_argument("--workers", type=int, default=13)
    parser.add_argument("--seconds-budget", type=float, default=float("inf"))
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--cores-only", action="store_true", help="this process is the one beside the GPU's")
    options = parser.parse_args()
    store, ends = Store(options.runs), time.monotonic() + options.seconds_budget
    if options.cores_only:
        on_cores(
            options.on_cores,
            options.scale,
            store,
            first_seed=options.first_seed,
            workers=options.workers,
            budget=options.seconds_budget,
        )
        return
    print(f"on {machine()}, torch {torch.__version__}", flush=True)
    beside = None
    if options.on_cores:
        hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        beside = subprocess.Popen([sys.executable, "-u", *sys.argv, "--cores-only"], env=hidden)
    began = time.monotonic()
    on_this_device(options.on_gpu, options.scale, store, ends=ends)
    print(f"on this device together {time.monotonic() - began:.1f} s", flush=True)
    if beside is not None:
        beside.wait()
    if options.pack:
        packed = Packer(store, options.pack, largest=_FILE, most=_FILES).write()
        print(f"packed: {packed.bytes / 1e6:.1f} MB", *packed.notes, sep="\n", flush=True)


if __name__ == "__main__":
    main()
