"""Sweeps: skipping, mending, stopping, and the same records whatever happens in between."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from tests.execution.sweeps import fingerprint, flip, tiny_study
from undertow.config.grid import StudyConfig
from undertow.core.canonical import digest, seal
from undertow.execution.build import build_data, build_network, build_recipe
from undertow.execution.checkpoint import Workspace
from undertow.execution.engines.here import Here
from undertow.execution.group import run_group
from undertow.execution.sweep import SweepOutcome, sweep
from undertow.execution.watch import Watch
from undertow.probe.records import Record
from undertow.store.lock import Lock
from undertow.store.store import Store
from undertow.training import Trainer


def run(store: Store, study: StudyConfig, *, stop: Callable[[], bool] = lambda: False) -> SweepOutcome:
    return sweep(store, study, engine=Here(checkpoint_seconds=0.03), stop=stop)


def after(looks: int) -> Callable[[], bool]:
    """A request to stop that comes at the given look, and stays."""
    seen = itertools.count(1)
    return lambda: next(seen) >= looks


def copy_of(store: Store, folder: Path) -> Store:
    shutil.copytree(store.path, folder, dirs_exist_ok=True)
    return Store(folder)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("undisturbed"))
    assert run(store, tiny_study()).complete
    return store


def test_a_trial_records_what_plain_training_gives(undisturbed: Store) -> None:
    trial = tiny_study().points[4].trial
    data = build_data(trial.data)
    trainer = Trainer([build_network(trial, data)], data.x, data.y, [build_recipe(trial)])
    while not trainer.done:
        trainer.run_epoch()
    stored = undisturbed.trial(trial.id)
    assert stored.status == {"status": "finished", "step": 36, "reason": None}
    final: list[Record] = [r for r in stored.records if r.step == 36 and r.key == "log10"]
    assert final[0].value == pytest.approx(trainer.log_loss().item() / torch.log(torch.tensor(10.0)).item())
    for name, weight in trainer.network(0).state_dict().items():
        torch.testing.assert_close(stored.weights[name], weight)


def test_weights_are_independent_of_the_data() -> None:
    """From one seed, drawn without named streams, a neuron would be a multiple of the mixture's signal."""
    study = tiny_study(data={"name": "kou-mixture", "n": 6, "d": 400, "sigma_p": 0.3})
    trial = study.points[0].trial
    data = build_data(trial.data)
    weight = build_network(trial, data).get_parameter("hidden.weight").detach()
    drawn = torch.cat([data.details["signal"][None], data.details["noise"]])
    cosines = torch.nn.functional.normalize(weight) @ torch.nn.functional.normalize(drawn).T
    assert cosines.abs().max() < 6 / 400**0.5


def test_provenance_says_where_the_numbers_come_from(undisturbed: Store) -> None:
    trial = tiny_study().points[0].trial
    found = undisturbed.trial(trial.id).provenance
    assert found["seeds"] == {"trial": 0, "data": 0}
    assert found["data"]["checksum"] == build_data(trial.data).checksum
    assert found["packages"]["torch"] == torch.__version__
    assert len(found["code"]["source"]) == 64
    assert found["hardware"]["threads"] >= 1
    assert found["cost"]["seconds"] > 0


def test_a_rerun_touches_nothing(undisturbed: Store) -> None:
    before = {trial: undisturbed.folder(trial).stat().st_ino for trial in undisturbed.finished()}
    assert run(undisturbed, tiny_study()).complete
    assert {trial: undisturbed.folder(trial).stat().st_ino for trial in undisturbed.finished()} == before


def test_the_frame_is_tidy(undisturbed: Store) -> None:
    frame = undisturbed.frame()
    assert frame.columns[:7] == ["trial", "step", "epoch", "measure", "key", "value", "error"]
    assert {"study", "variant", "scale", "status", "seed", "std"} <= set(frame.columns)
    assert frame["trial"].n_unique() == 12
    assert sorted(frame["std"].unique().to_list()) == [0.01, 0.1, 1.0]
    assert frame["step"].max() == 36
    assert frame["epoch"].max() == 12
    assert frame.filter(frame["measure"] == "accuracy")["value"].is_between(0, 1).all()


def test_stopped_and_resumed_sweeps_write_the_same_bytes(undisturbed: Store, tmp_path: Path) -> None:
    store, study = Store(tmp_path), tiny_study()
    rounds = 0
    while not (outcome := run(store, study, stop=after(7))).complete:
        assert outcome.interrupted
        rounds += 1
    assert rounds > 5
    assert fingerprint(store) == fingerprint(undisturbed)
    assert not any(path.is_dir() for path in (tmp_path / "work").iterdir())


def test_another_pace_of_steps_writes_the_same_bytes(
    undisturbed: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("undertow.execution.group._RESPONSIVE", 0.0)  # a look at the clock after every step
    assert run(Store(tmp_path), tiny_study()).complete
    assert fingerprint(Store(tmp_path)) == fingerprint(undisturbed)


def test_a_diverged_trial_is_a_result(tmp_path: Path) -> None:
    study = tiny_study(
        training={"optimizer": "gd", "learning_rate": 0.05, "epochs": 40, "dtype": "float32"},
        grid={"learning_rate": [0.05, 1e12]},
    )
    store = Store(tmp_path)
    assert run(store, study).complete
    calm, wild = (store.trial(point.trial.id) for point in study.points)
    assert calm.status["status"] == "finished"
    assert wild.status["status"] == "diverged"
    assert wild.status["step"] < 40
    assert "loss" in wild.status["reason"]
    assert max(record.step for record in wild.records) < max(record.step for record in calm.records)
    assert set(store.frame()["status"].unique()) == {"finished", "diverged"}


def test_a_group_that_cannot_run_is_told_and_the_others_finish(tmp_path: Path) -> None:
    study = tiny_study(
        probe={"measures": [{"name": "collaboration", "seam": "nowhere"}, "loss"], "every": "epoch"}
    )
    outcome = run(Store(tmp_path), study)
    assert not outcome.complete
    assert not outcome.interrupted
    assert outcome.finished == 0
    assert all("nowhere" in note for note in outcome.notes)


@pytest.mark.parametrize(
    "name", ["config.json", "records.jsonl", "weights.safetensors", "manifest.json", "status.json"]
)
def test_resume_computes_a_damaged_trial_again_and_no_other(
    name: str, undisturbed: Store, tmp_path: Path
) -> None:
    store, study = copy_of(undisturbed, tmp_path), tiny_study()
    victim = study.points[4].trial.id
    inodes = {trial: store.folder(trial).stat().st_ino for trial in store.finished()}
    flip(store.folder(victim) / name, 5)
    outcome = run(store, study)
    assert outcome.complete
    assert len(outcome.notes) == 1
    assert f"{victim}/{name}" in outcome.notes[0]
    assert fingerprint(store) == fingerprint(undisturbed)
    now = {trial: store.folder(trial).stat().st_ino for trial in store.finished()}
    assert {trial for trial in now if now[trial] != inodes[trial]} == {victim}


def test_records_that_changed_with_the_software_are_kept_and_told(undisturbed: Store, tmp_path: Path) -> None:
    store, study = copy_of(undisturbed, tmp_path), tiny_study()
    group = study.groups[0]
    kept, lost = group.trials[0], group.trials[1]
    # As if an earlier version had computed another value: whole, but other than now.
    stored = store.trial(kept.id)
    other = stored.files["records.jsonl"].replace(b'"step":36', b'"step":36 ')
    _replace(store, kept.id, other)
    store.folder(lost.id).rename(tmp_path / "lost")
    outcome = run(store, study)
    assert outcome.complete
    assert len(outcome.notes) == 1
    assert kept.id in outcome.notes[0]
    assert store.trial(kept.id).files["records.jsonl"] == other


def _replace(store: Store, trial: str, records: bytes) -> None:
    files = dict(store.trial(trial).files) | {"records.jsonl": records}
    (store.folder(trial) / "records.jsonl").write_bytes(records)
    manifest = {"trial": trial, "files": {name: digest(data) for name, data in files.items()}}
    (store.folder(trial) / "manifest.json").write_bytes(seal(manifest))


@pytest.mark.parametrize("victim", ["newest tensors", "newest json", "records", "everything", "torn line"])
def test_damaged_checkpoints_cost_time_not_results(victim: str, undisturbed: Store, tmp_path: Path) -> None:
    store, study = Store(tmp_path), tiny_study()
    group = study.groups[1]
    outcome = run_group(store, group, stop=after(9), checkpoint_seconds=0.0)
    assert outcome.status == "interrupted"
    folder = tmp_path / "work" / group.id
    newest = Workspace(folder).progress()
    assert newest > 3
    if victim in ("newest tensors", "everything"):
        flip(folder / f"checkpoint-{newest}.safetensors", -1)
    if victim in ("newest json", "everything"):
        flip(folder / f"checkpoint-{newest}.json", 20)
    if victim in ("records", "everything"):
        flip(folder / "records.jsonl", 3)
    if victim == "torn line":
        with (folder / "records.jsonl").open("ab") as file:
            file.write(b'{"trial":"torn')
    resumed = Workspace(folder).load()
    assert (resumed is None) == (victim in ("records", "everything"))
    if resumed is not None:
        assert (resumed.step == newest) == (victim == "torn line")
    assert run_group(store, group).status == "finished"
    whole = fingerprint(undisturbed)
    assert fingerprint(store) == {trial.id: whole[trial.id] for trial in group.trials}


def killed_sweep(path: Path, study: StudyConfig, *, kills: int, seconds: tuple[float, float]) -> int:
    """Run a sweep in forked processes, killing each after a random while; returns how many were killed."""
    random_wait = random.Random(0)
    finished: dict[str, str] = {}
    killed = 0
    for _ in range(10 * kills):
        child = os.fork()
        if child == 0:  # torch is imported already, so that the fork starts at once
            try:
                os._exit(0 if run(Store(path), study).complete else 1)
            finally:
                os._exit(2)
        if killed < kills:
            time.sleep(random_wait.uniform(*seconds))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        now = fingerprint(Store(path))  # reads, and so verifies, everything visible
        assert finished.items() <= now.items(), "a finished trial was lost or changed"
        finished = now
        if os.WIFSIGNALED(status):
            killed += 1
        else:
            assert os.waitstatus_to_exitcode(status) == 0
            return killed
    raise AssertionError("the sweep did not end")


def kill_study(epochs: int) -> StudyConfig:
    return tiny_study(
        training={"optimizer": "sgd", "batch_size": 2, "learning_rate": 0.05, "epochs": epochs},
        probe={"measures": ["stable-rank", "loss"], "every": 20},
        grid={"seed": list(range(20)), "std": [0.01, 0.1]},
    )


def test_forty_trials_killed_ten_times(tmp_path: Path) -> None:
    study = kill_study(epochs=30)
    assert len(study.points) == 40
    run(Store(tmp_path / "undisturbed"), study)
    killed = killed_sweep(tmp_path / "killed", study, kills=10, seconds=(0.02, 0.12))
    assert killed == 10
    assert fingerprint(Store(tmp_path / "killed")) == fingerprint(Store(tmp_path / "undisturbed"))


@pytest.mark.full
def test_forty_trials_killed_a_hundred_times(tmp_path: Path) -> None:
    study = kill_study(epochs=1000)
    run(Store(tmp_path / "undisturbed"), study)
    killed = killed_sweep(tmp_path / "killed", study, kills=100, seconds=(0.05, 0.3))
    assert killed == 100
    assert fingerprint(Store(tmp_path / "killed")) == fingerprint(Store(tmp_path / "undisturbed"))


def test_a_group_in_other_hands_is_waited_for_and_whose_they_are_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("undertow.execution.sweep._PATIENCE", 0.01)
    store, study = Store(tmp_path), tiny_study(grid={"seed": [0]})
    told: list[str] = []

    class Telling(Watch):
        def waiting(self, why: Sequence[str]) -> None:
            told.extend(why)

    with Lock(store.path / "locks" / f"{study.groups[0].id}.lock"):
        outcome = sweep(store, study, engine=Here(), stop=lambda: len(told) > 2, watch=lambda _: Telling())
    assert outcome.interrupted
    assert f"{study.groups[0].id} is being worked on by process {os.getpid()}" in told[0]
    assert sweep(store, study, engine=Here()).complete
