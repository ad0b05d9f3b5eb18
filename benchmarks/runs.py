"""What the machinery around training costs: store and progress, local processes, a Dask cluster.

Prints three ratios, each beside its bar. The trials are those of the stable-rank study at laptop scale, with
fewer epochs where ``--quick`` is given. Other load on the machine spoils the second one above all.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from undertow.config.grid import Group, StudyConfig
from undertow.config.trial import validate
from undertow.execution.build import build_data, build_network, build_recipe
from undertow.execution.engines.cluster import Cluster
from undertow.execution.engines.here import Here
from undertow.execution.engines.processes import Processes
from undertow.execution.engines.worker import Engine
from undertow.execution.sweep import sweep
from undertow.execution.watch import Bars
from undertow.probe.schedule import Schedule
from undertow.probe.taking import take
from undertow.store.store import Store
from undertow.studies.stable_rank import STUDY
from undertow.training import Trainer


def timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def bare(group: Group) -> None:
    """The group's training and measuring, with nothing around it."""
    first = group.trials[0]
    data = build_data(first.data)
    networks = [build_network(trial, data) for trial in group.trials]
    trainer = Trainer(networks, data.x, data.y, [build_recipe(trial) for trial in group.trials])
    measures, schedule = [each for each, _ in first.probe.build()], Schedule(first.probe.every)
    while True:
        for index in range(len(networks)):
            take(trainer.network(index), data.x, data.y, measures=measures, step=trainer.step)
        if trainer.done:
            return
        trainer.advance(min(schedule.next(trainer.step), trainer.total_steps) - trainer.step)


def stored(study: StudyConfig, engine: Engine) -> None:
    """The same in a store, with progress bars on a terminal that nobody sees."""
    console = Console(file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        outcome = sweep(
            Store(Path(folder)),
            study,
            engine=engine,
            watch=lambda done: Bars("benchmark", trials=len(study.points), done=done, console=console),
        )
        assert outcome.complete, outcome.notes


def variation(study: StudyConfig, **changes: Any) -> StudyConfig:
    return validate(StudyConfig, {**study.model_dump(mode="json"), **changes})


def overhead(study: StudyConfig, repeats: int) -> float:
    one = variation(study, grid={**study.grid, "activation": ["relu"], "seed": [0]})
    (group,) = one.groups
    # Turn about, and the best of each: what else runs on the machine slows both.
    pairs = [(timed(lambda: bare(group)), timed(lambda: stored(one, Here()))) for _ in range(repeats)]
    return min(pair[1] for pair in pairs) / min(pair[0] for pair in pairs) - 1


def speedup(study: StudyConfig) -> float:
    alone = timed(lambda: stored(study, Here()))
    return alone / timed(lambda: stored(study, Processes(2)))


def dask_seconds_per_trial(study: StudyConfig, trials: int) -> float:
    def trivial(seeds: list[int]) -> StudyConfig:
        training = {**study.training.model_dump(mode="json"), "epochs": 0}
        return variation(study, training=training, grid={"seed": seeds}, group_size=1)

    many = trivial(list(range(trials)))
    distributed: Any = importlib.import_module("distributed")
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
    with cluster:
        remote = Cluster(cluster.scheduler_address)
        stored(trivial([trials]), remote)  # the worker imports torch
        there = timed(lambda: stored(many, remote))
    return (there - timed(lambda: stored(many, Here()))) / trials


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the epochs")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    study = STUDY.grids("laptop", "paper")[0]
    if quick:
        study = variation(study, training={**study.training.model_dump(mode="json"), "epochs": 500})
    print(f"{len(study.points)} trials, {study.training.epochs} epochs; {os.cpu_count()} cores")
    print(f"store and progress   {overhead(study, repeats=3):+.1%} of a group's time (bar: 3 %)")
    print(f"two processes        {speedup(study):.2f}× one (bar: 1.7× on two idle cores)")
    print(f"dask                 {1000 * dask_seconds_per_trial(study, 100):+.1f} ms per trial (bar: 20 ms)")


if __name__ == "__main__":
    main()
