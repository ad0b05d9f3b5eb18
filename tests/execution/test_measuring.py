"""A group's measures: each on its own schedule, with its memory, its cost; and trials without weights."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.execution.sweeps import fingerprint, tiny_study
from tests.probe import test_probe
from undertow.config.grid import StudyConfig
from undertow.core.errors import ConfigError, StoreError
from undertow.execution.build import build_data, build_network, build_recipe
from undertow.execution.engines import engine
from undertow.execution.engines.here import Here
from undertow.execution.engines.worker import Orders, going_on, work
from undertow.execution.group import run_group
from undertow.execution.sweep import sweep
from undertow.measures import MEASURES, Listed
from undertow.store.store import Store
from undertow.training import StepTaken, Trainer


def after(looks: int) -> Callable[[], bool]:
    seen = itertools.count(1)
    return lambda: next(seen) >= looks


def steps_of(store: Store, study: StudyConfig, measure: str) -> list[int]:
    records = store.trial(study.points[0].trial.id).records
    return sorted({record.step for record in records if record.measure == measure})


def test_every_measure_has_its_own_schedule(tmp_path: Path) -> None:
    measures = [
        "loss",
        {"name": "accuracy", "every": 9},
        {"name": "stable-rank", "every": "end"},
        {"name": "energy", "every": "ends"},
    ]
    study = tiny_study(probe={"measures": measures, "every": "epoch"})
    sweep(Store(tmp_path), study, engine=Here())
    store = Store(tmp_path)
    assert steps_of(store, study, "loss") == [3 * epoch for epoch in range(13)]
    assert steps_of(store, study, "accuracy") == [0, 9, 18, 27, 36]
    assert steps_of(store, study, "stable-rank") == [36]
    assert steps_of(store, study, "energy") == [0, 36]


def test_a_schedule_that_is_none_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match="every = 'epohc' is no schedule; did you mean 'epoch'"):
        tiny_study(probe={"measures": [{"name": "loss", "every": "epohc"}]})
    with pytest.raises(ConfigError, match="a number of steps, 1 or more"):
        tiny_study(probe={"measures": [{"name": "loss", "every": True}]})
    own = tiny_study(probe={"measures": [{"name": "loss", "every": 3}]})
    default = tiny_study(probe={"measures": ["loss"]})
    assert own.points[0].trial.id != default.points[0].trial.id
    assert "every" not in default.points[0].trial.probe.measures[0]


def test_no_training_has_one_end(tmp_path: Path) -> None:
    study = tiny_study(
        training={"epochs": 0}, probe={"measures": ["loss", {"name": "accuracy", "every": "end"}]}
    )
    sweep(Store(tmp_path), study, engine=Here())
    assert steps_of(Store(tmp_path), study, "accuracy") == [0]
    assert len(Store(tmp_path).trial(study.points[0].trial.id).records) == 3


def tracking_study() -> StudyConfig:
    return tiny_study(
        probe={"measures": ["loss", "path"], "every": 5}, grid={"seed": [0, 1], "std": [0.01, 0.1, 1.0]}
    )


def test_trackers_see_every_step_of_their_own_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MEASURES.lines, "path", Listed("path", "tests.probe.test_probe:Path"))
    store, study = Store(tmp_path), tracking_study()
    sweep(store, study, engine=Here())
    trial = study.points[4].trial
    data = build_data(trial.data)
    trainer = Trainer([build_network(trial, data)], data.x, data.y, [build_recipe(trial)])
    tracker = test_probe.PathTracker(trainer.network(0), data.x, data.y, trial.training.learning_rate)
    while not trainer.done:
        trainer.advance(1)
        tracker.observe(trainer.network(0), StepTaken(trial.training.learning_rate))
    found = {r.step: r.value for r in store.trial(trial.id).records if r.key == "length"}
    assert sorted(found) == [*range(0, 36, 5), 36]
    assert found[0] == 0
    assert found[36] == pytest.approx(tracker.length.item(), rel=1e-5)


def test_trackers_resume_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES.lines, "path", Listed("path", "tests.probe.test_probe:Path"))
    study = tracking_study()
    whole, stopped = Store(tmp_path / "whole"), Store(tmp_path / "stopped")
    sweep(whole, study, engine=Here())
    rounds = 0
    while not sweep(stopped, study, engine=Here(checkpoint_seconds=0.0), stop=after(6)).complete:
        rounds += 1
    assert rounds > 5
    assert fingerprint(stopped) == fingerprint(whole)


def test_a_member_that_diverged_is_no_longer_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES.lines, "path", Listed("path", "tests.probe.test_probe:Path"))
    study = tiny_study(
        training={"optimizer": "gd", "learning_rate": 0.05, "epochs": 40},
        probe={"measures": ["path"], "every": 1},
        grid={"learning_rate": [0.05, 1e12]},
    )
    store = Store(tmp_path)
    assert sweep(store, study, engine=Here()).complete
    calm, wild = (store.trial(point.trial.id) for point in study.points)
    assert max(record.step for record in calm.records) == 40
    assert max(record.step for record in wild.records) < wild.status["step"] + 1


@pytest.mark.parametrize("elsewhere", [False, True])
def test_trials_without_weights(elsewhere: bool, tmp_path: Path) -> None:
    study, store = tiny_study(grid={"seed": [0]}), Store(tmp_path)
    if elsewhere:  # as a worker process would
        with going_on(store) as signal:
            orders = Orders(str(tmp_path), str(signal), torch.get_num_threads(), 30.0, keep_weights=False)
            assert work(orders, study.groups[0]).status == "finished"
    else:
        assert sweep(store, study, engine=engine("here", keep_weights=False)).complete
    stored = store.trial(study.points[0].trial.id)
    assert "weights.safetensors" not in stored.files
    assert len(stored.records) > 0
    with pytest.raises(StoreError, match="without keeping its weights"):
        _ = stored.weights
    assert sweep(store, study, engine=Here()).complete  # finished is finished


def test_the_cost_is_split_and_survives_a_stop(tmp_path: Path) -> None:
    store, study = Store(tmp_path), tiny_study()
    group = study.groups[0]
    assert run_group(store, group, stop=after(9), checkpoint_seconds=0.0).status == "interrupted"
    assert run_group(store, group).status == "finished"
    cost = store.trial(group.trials[0].id).provenance["cost"]
    assert cost["restarts"] == 1
    assert set(cost["measuring"]) == {"stable-rank", "loss", "accuracy"}
    parts = [cost["training"], *cost["measuring"].values()]
    assert all(part > 0 for part in parts)
    assert sum(parts) <= cost["seconds"] * (1 + 1e-9)
    assert 0 < cost["ending"] < cost["seconds"]


def test_a_shared_network_follows_the_training() -> None:
    trial = tiny_study().points[0].trial
    data = build_data(trial.data)
    trainer = Trainer([build_network(trial, data)] * 2, data.x, data.y, [build_recipe(trial)] * 2)
    shared, copied = trainer.network(1, shared=True), trainer.network(1)
    trainer.run_epoch()
    for (name, now), before in zip(shared.named_parameters(), copied.parameters(), strict=True):
        assert torch.equal(now, trainer.network(1).get_parameter(name))
        assert not torch.equal(now, before)
