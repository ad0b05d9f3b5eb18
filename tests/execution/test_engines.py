"""Engines: other processes and a cluster write the very same store, also when workers die."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.execution.sweeps import fingerprint, gpus_seen, tiny_study
from undertow.config.grid import Group, StudyConfig
from undertow.core.errors import ConfigError
from undertow.execution.engines import engine, processes
from undertow.execution.engines.here import Here
from undertow.execution.engines.processes import Processes
from undertow.execution.engines.worker import Orders
from undertow.execution.sweep import sweep
from undertow.execution.watch import Watch
from undertow.store.store import Store


def long_study(*, epochs: int = 40, seeds: int = 6) -> StudyConfig:
    """Groups of two, one for each seed."""
    return tiny_study(
        training={"optimizer": "sgd", "batch_size": 2, "learning_rate": 0.05, "epochs": epochs},
        probe={"measures": ["stable-rank", "loss"], "every": 20},
        grid={"seed": list(range(seeds)), "std": [0.01, 0.1]},
    )


class Killer(Watch):
    """Kills a worker process of this one's whenever it hears of progress, a few times."""

    def __init__(self, kills: int) -> None:
        self.kills = kills
        self.heard: set[str] = set()

    def progress(self, group: Group, step: int, steps: int, note: str = "") -> None:  # noqa: ARG002
        assert 0 <= step <= steps
        self.heard.add(group.id)

    def ended(self, group: Group, *, finished: bool) -> None:  # noqa: ARG002
        if self.kills:
            workers = [pid for pid in descendants(os.getpid()) if is_worker(pid)]
            os.kill(workers[0], signal.SIGKILL)
            self.kills -= 1


def descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *descendants(child)]
    return found


def is_worker(pid: int) -> bool:
    command = Path(f"/proc/{pid}/cmdline").read_bytes()
    return b"spawn_main" in command


def test_processes_write_the_same_store_each_on_its_gpu_also_when_one_is_killed(tmp_path: Path) -> None:
    study = long_study()
    alone, shared = Store(tmp_path / "alone"), Store(tmp_path / "shared")
    sweep(alone, study, engine=Here())
    killer = Killer(kills=1)
    chosen = Processes(2, checkpoint_seconds=0.05, gpus=("GPU-a", "3"))  # made up
    outcome = sweep(shared, study, engine=chosen, watch=lambda _: killer)
    assert killer.kills == 0
    assert outcome.complete, outcome.notes
    assert fingerprint(shared) == fingerprint(alone)
    assert gpus_seen(shared) == {"GPU-a", "3"}
    assert os.environ.get("CUDA_VISIBLE_DEVICES") is None
    assert not list((shared.path / "work").glob("sweep-*"))


@pytest.mark.full
def test_processes_stop_at_a_checkpoint(tmp_path: Path) -> None:
    study = long_study(epochs=200, seeds=12)
    store = Store(tmp_path)
    begun = threading.Event()

    class Begin(Watch):
        def progress(self, group: Group, step: int, steps: int, note: str = "") -> None:  # noqa: ARG002
            begun.set()

    outcome = sweep(store, study, engine=Processes(2), stop=begun.is_set, watch=lambda _: Begin())
    assert outcome.interrupted
    assert not outcome.complete
    kept = fingerprint(store)
    assert sweep(store, study, engine=Here()).complete
    assert kept.items() <= fingerprint(store).items()


@pytest.mark.full
def test_dask_writes_the_same_store_also_when_a_worker_is_killed(tmp_path: Path) -> None:
    study = long_study(epochs=200, seeds=20)
    alone, shared = Store(tmp_path / "alone"), Store(tmp_path / "shared")
    sweep(alone, study, engine=Here())
    killer = Killer(kills=3)
    outcome = sweep(shared, study, engine=engine("dask", workers=2), watch=lambda _: killer)
    assert killer.kills == 0
    assert outcome.complete, outcome.notes
    assert fingerprint(shared) == fingerprint(alone)


@pytest.mark.full
def test_dask_at_an_address(tmp_path: Path) -> None:
    distributed: Any = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        chosen = engine("dask", address=cluster.scheduler_address)
        assert sweep(Store(tmp_path), tiny_study(), engine=chosen).complete


def test_unusable_engines_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'processes'"):
        engine("process")
    with pytest.raises(ConfigError, match="at least one"):
        engine("processes", workers=0)
    with pytest.raises(ConfigError, match="an address belongs to the engine dask"):
        engine("processes", address="tcp://localhost:1")
    with pytest.raises(ConfigError, match="no Dask scheduler answers at nonsense"):
        sweep(Store(tmp_path), tiny_study(), engine=engine("dask", address="nonsense://x"))


def test_workers_take_no_more_threads_than_their_parent_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def started(orders: Orders, *_: object) -> None:
        asked.append(orders.threads)
        raise KeyboardInterrupt

    monkeypatch.setattr(processes, "_start", started)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    groups = list(tiny_study().groups)
    for given in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda given=given: given)
        with pytest.raises(KeyboardInterrupt):
            list(Processes(2).run(Store(tmp_path), groups, stop=lambda: False, watch=Watch()))
    assert asked == [1, 3]
