"""More than one GPU and more than one machine: made-up devices, and workers that do not see the store."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import undertow
from tests.execution.sweeps import fingerprint, gpus_seen, tiny_study
from undertow.config.grid import Group, StudyConfig
from undertow.execution import group as group_module
from undertow.execution.engines import engine
from undertow.execution.engines.cluster import Cluster
from undertow.execution.engines.here import Here
from undertow.execution.engines.processes import Processes
from undertow.execution.sweep import sweep
from undertow.execution.watch import Watch
from undertow.store.store import Store
from undertow.training import Trainer


def slow_enough(seeds: int = 4) -> StudyConfig:
    """Groups that two workers share out rather than one taking all of them."""
    return tiny_study(
        training={"optimizer": "sgd", "batch_size": 2, "learning_rate": 0.05, "epochs": 25},
        grid={"seed": list(range(seeds)), "std": [0.01, 0.1]},
        group_size=2,
    )


@pytest.fixture
def alone(tmp_path: Path) -> dict[str, str]:
    store = Store(tmp_path / "alone")
    assert sweep(store, slow_enough(), engine=Here()).complete
    return fingerprint(store)


def test_engines_take_one_worker_for_each_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("undertow.execution.engines.visible_gpus", lambda: ("0", "1", "2"))
    chosen = engine("auto")
    assert isinstance(chosen, Processes)
    assert (chosen.workers, chosen.gpus) == (3, ("0", "1", "2"))
    assert isinstance(engine("processes", workers=6), Processes)
    local = engine("dask")
    assert isinstance(local, Cluster)
    assert (local.workers, local.gpus) == (3, ("0", "1", "2"))
    elsewhere = engine("dask", address="tcp://somewhere:8786")
    assert isinstance(elsewhere, Cluster)
    assert elsewhere.gpus == ()
    monkeypatch.setattr("undertow.execution.engines.visible_gpus", lambda: ("0",))
    assert isinstance(engine("auto"), Here)


class TooSmall(Trainer):
    """A trainer on a made-up device that has room for two networks."""

    def advance(self, steps: int) -> None:
        if len(self.members()) > 2 and self.step >= 5:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        super().advance(steps)


def test_a_group_too_large_is_split_by_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = tiny_study(grid={"seed": [0], "std": [0.01, 0.03, 0.1, 0.3, 1.0]})
    assert len(study.groups) == 1
    whole, split = Store(tmp_path / "whole"), Store(tmp_path / "split")
    assert sweep(whole, study, engine=Here()).complete
    monkeypatch.setattr(group_module, "Trainer", TooSmall)
    heard = Heard()
    outcome = sweep(split, study, engine=Here(), watch=lambda _: heard)
    assert outcome.complete, outcome.notes
    assert outcome.notes == ()
    sizes = {split.trial(trial).provenance["group"]["size"] for trial in split.finished()}
    assert sizes == {1, 2}
    assert split.finished() == whole.finished()
    for trial in whole.finished():
        ours, theirs = split.trial(trial).records, whole.trial(trial).records
        assert [(r.step, r.measure, r.key) for r in ours] == [(r.step, r.measure, r.key) for r in theirs]
        # Products of one matrix are not added up in the order of products of many: the same to rounding.
        assert [r.value for r in ours] == pytest.approx([r.value for r in theirs], rel=1e-4, abs=1e-6)
    assert not list((split.path / "work").glob("*/*"))
    assert len(heard.groups) == 5  # five, three and two, and the two halves of three


def test_one_network_that_does_not_fit_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoRoom(Trainer):
        def advance(self, steps: int) -> None:  # noqa: ARG002
            raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(group_module, "Trainer", NoRoom)
    outcome = sweep(Store(tmp_path), tiny_study(grid={"seed": [0, 1]}), engine=Here())
    assert not outcome.complete
    assert len(outcome.notes) == 2
    assert all("the memory was used up" in note for note in outcome.notes)


class Heard(Watch):
    """Remembers which groups told of progress."""

    def __init__(self) -> None:
        self.groups: set[str] = set()

    def progress(self, group: Group, step: int, steps: int, note: str = "") -> None:  # noqa: ARG002
        assert 0 <= step <= steps
        self.groups.add(group.id)


@pytest.mark.full
def test_a_local_cluster_has_one_worker_for_each_gpu(tmp_path: Path, alone: dict[str, str]) -> None:
    pytest.importorskip("distributed")
    store = Store(tmp_path / "runs")
    assert sweep(store, slow_enough(), engine=Cluster(None, 2, gpus=("0", "7"))).complete
    assert gpus_seen(store) == {"0", "7"}
    assert fingerprint(store) == alone


@contextlib.contextmanager
def worker(address: str, *words: str, hiding: Path | None = None, **variables: str) -> Iterator[None]:
    """A Dask worker of the cluster at that address; one of another machine where a folder is hidden from it."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", *words]
    if hiding is not None:
        covered = 'mount -t tmpfs none "$0" && exec "$@"'
        command = ["unshare", "-rm", "sh", "-c", covered, str(hiding), *command]
    source = str(Path(undertow.__file__).parents[1])
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, **variables, "PYTHONPATH": f"{source}:{root}"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def scheduler() -> Iterator[str]:
    distributed: Any = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster:
        yield cluster.scheduler_address


@pytest.mark.full
def test_groups_ask_for_a_gpu_where_workers_declare_one(
    tmp_path: Path, alone: dict[str, str], scheduler: str
) -> None:
    store = Store(tmp_path / "runs")
    with (
        worker(scheduler, "--resources", "GPU=1", CUDA_VISIBLE_DEVICES="5"),
        worker(scheduler, CUDA_VISIBLE_DEVICES="none"),
    ):
        import distributed

        with distributed.Client(scheduler) as client:
            client.wait_for_workers(2, timeout=60)
        assert sweep(store, slow_enough(), engine=engine("dask", address=scheduler)).complete
    assert gpus_seen(store) == {"5"}
    assert fingerprint(store) == alone


@pytest.mark.full
def test_groups_ask_for_the_gpu_of_a_worker_that_comes_later(tmp_path: Path, scheduler: str) -> None:
    """What was handed out before it came stays where it is: a group for the thread there, and one to go on with."""
    import distributed

    study = slow_enough(seeds=8)
    store, late = Store(tmp_path / "runs"), contextlib.ExitStack()

    def comes_later() -> bool:
        if store.finished() and len(store.finished()) < len(study.points) and not joined:
            joined.append(len(store.finished()))
            late.enter_context(worker(scheduler, "--resources", "GPU=1", CUDA_VISIBLE_DEVICES="5"))
            with distributed.Client(scheduler) as client:
                client.wait_for_workers(2, timeout=60)
        return False

    joined: list[int] = []
    with late, worker(scheduler, CUDA_VISIBLE_DEVICES="none"):
        assert sweep(store, study, engine=engine("dask", address=scheduler), stop=comes_later).complete
    seen = [store.trial(trial).provenance["hardware"]["visible_gpus"] for trial in store.finished()]
    size = len(study.groups[0].trials)
    assert seen.count("none") <= joined[0] + 2 * size
    assert seen.count("5") >= len(seen) - joined[0] - 2 * size > 0


def test_a_sweep_that_no_worker_comes_to_can_be_stopped(tmp_path: Path, scheduler: str) -> None:
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 3

    outcome = sweep(Store(tmp_path), slow_enough(), engine=engine("dask", address=scheduler), stop=stop)
    assert outcome.interrupted
    assert outcome.finished == 0


def _can_hide_folders() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not _can_hide_folders(), reason="this system lets nobody have a mount table of their own")
def test_workers_that_do_not_see_the_store_send_trials_back(
    tmp_path: Path, alone: dict[str, str], scheduler: str
) -> None:
    store, scratch = Store(tmp_path / "shared" / "runs"), tmp_path / "scratch"
    store.path.mkdir(parents=True)
    scratch.mkdir()
    heard = Heard()
    with worker(scheduler, hiding=store.path.parent, TMPDIR=str(scratch)):
        outcome = sweep(store, slow_enough(), engine=engine("dask", address=scheduler), watch=lambda _: heard)
    assert outcome.complete, outcome.notes
    assert fingerprint(store) == alone
    assert heard.groups
    assert not [path for path in scratch.rglob("trials/*") if path.is_dir()]  # sent, and removed


@pytest.mark.full
@pytest.mark.skipif(not _can_hide_folders(), reason="this system lets nobody have a mount table of their own")
def test_workers_that_do_not_see_the_store_stop_and_go_on(tmp_path: Path, scheduler: str) -> None:
    study = tiny_study(
        training={"optimizer": "sgd", "batch_size": 2, "learning_rate": 0.05, "epochs": 6000},
        grid={"seed": [0], "std": [0.01, 0.1]},
    )
    store, scratch = Store(tmp_path / "shared" / "runs"), tmp_path / "scratch"
    store.path.mkdir(parents=True)
    scratch.mkdir()
    heard = Heard()
    chosen = engine("dask", address=scheduler)
    with worker(scheduler, hiding=store.path.parent, TMPDIR=str(scratch)):
        outcome = sweep(store, study, engine=chosen, stop=lambda: bool(heard.groups), watch=lambda _: heard)
        assert outcome.interrupted
        assert list(scratch.rglob("checkpoint-*.json"))
        assert sweep(store, study, engine=chosen).complete
    assert store.trial(store.finished()[0]).provenance["cost"]["restarts"] == 1
