"""Trials whose epochs may be taken back: their records, their checkpoints, and what trackers see of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from tests.execution.sweeps import fingerprint, tiny_study
from tests.execution.test_sweep import killed_sweep
from undertow.config.grid import StudyConfig
from undertow.execution.build import build_data, build_network, build_recipe
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.measures import MEASURES, Listed
from undertow.measures.named_measure import NamedMeasure
from undertow.store.store import Store
from undertow.training import StepTaken, Trainer

TRAINING: dict[str, Any] = {
    "optimizer": "sgd",
    "batch_size": 2,
    "learning_rate": 8.0,
    "epochs": 12,
    "rate": {"name": "loss-based", "ceiling": 20.0},
}


def study(**changes: Any) -> StudyConfig:
    document: dict[str, Any] = {
        "data": {"name": "kou-mixture", "n": 10, "d": 12, "sigma_p": 0.3, "seed": 3},
        "training": TRAINING,
        "probe": {"measures": ["loss", "stable-rank"], "every": "epoch"},
        "grid": {"seed": [0, 1, 2, 3], "learning_rate": [2.0, 8.0]},
    }
    return tiny_study(**{**document, **changes})


def after(looks: int) -> Callable[[], bool]:
    seen = itertools.count(1)
    return lambda: next(seen) >= looks


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("undisturbed"))
    assert sweep(store, study(), engine=Here()).complete
    return store


def test_records_have_each_networks_own_epochs_and_tries(undisturbed: Store) -> None:
    tries = []
    for point in study().points:
        stored = undisturbed.trial(point.trial.id)
        assert stored.status["status"] == "finished"
        assert stored.status["step"] == 12 * 5
        losses = {r.epoch: r.value for r in stored.records if (r.measure, r.key) == ("loss", "log10")}
        assert list(losses) == list(range(13))  # each accepted epoch once, whatever the others did
        assert {r.epoch: r.step for r in stored.records} == {epoch: 5 * epoch for epoch in range(13)}
        falling = [losses[epoch] for epoch in range(1, 13)]
        assert falling == sorted(falling, reverse=True)
        counted = {r.epoch: r.value for r in stored.records if (r.measure, r.key) == ("steps", "tries")}
        assert list(counted) == list(range(13))
        assert counted[12] == stored.status["tries"] >= 12
        assert all(counted[epoch] < counted[epoch + 1] for epoch in range(12))
        rates = [r.value for r in stored.records if (r.measure, r.key) == ("steps", "log10_rate")]
        assert len(rates) == 13
        tries.append(stored.status["tries"])
    assert max(tries) > 12
    assert len(set(tries)) > 1


def test_a_trial_is_what_plain_training_gives(undisturbed: Store) -> None:
    trial = study(training={**TRAINING, "dtype": "float64"}).points[5].trial
    data = build_data(trial.data)
    trainer = Trainer([build_network(trial, data)], data.x, data.y, [build_recipe(trial)])
    while not trainer.done:
        trainer.run_epoch()
    stored = undisturbed.trial(study().points[5].trial.id)
    assert stored.status["status"] == trainer.members()[0].status
    assert trainer.tries()[0] > 12


def test_stopped_and_resumed_in_the_middle_of_tries(undisturbed: Store, tmp_path: Path) -> None:
    store = Store(tmp_path)
    rounds = 0
    while not sweep(store, study(), engine=Here(checkpoint_seconds=0.0), stop=after(23)).complete:
        rounds += 1
    assert rounds > 5
    assert fingerprint(store) == fingerprint(undisturbed)


def test_killed_ten_times_it_writes_the_same_bytes(undisturbed: Store, tmp_path: Path) -> None:
    killed = killed_sweep(tmp_path, study(), kills=10, seconds=(0.02, 0.1))
    assert killed >= 3
    assert fingerprint(Store(tmp_path)) == fingerprint(undisturbed)


@pytest.mark.parametrize("every", ["log", 7, "ends", "end"])
def test_other_schedules_are_met_at_the_next_epoch_that_is_kept(every: int | str, tmp_path: Path) -> None:
    plan = study(probe={"measures": ["loss"], "every": every}, grid={"seed": [0, 1]})
    store = Store(tmp_path)
    assert sweep(store, plan, engine=Here()).complete
    for point in plan.points:
        records = store.trial(point.trial.id).records
        steps = sorted({r.step for r in records if r.measure == "loss"})
        expected = {
            "log": [0, *range(5, 40, 5), 40, 45, 50, 55, 60],
            7: [0, 10, 15, 25, 30, 35, 45, 50, 60],
            "ends": [0, 60],
            "end": [60],
        }[every]
        if every == "log":
            assert set(steps) <= set(expected)
            assert steps[0] == 0
            assert steps[-1] == 60
        else:
            assert steps == expected
        assert len([r for r in records if (r.measure, r.key) == ("loss", "mean")]) == len(steps)


class Road(NamedMeasure):
    """Sums what every step moved, and counts what was taken back."""

    name: ClassVar[str] = "road"

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> Traveller:  # noqa: ARG002
        return Traveller(start)


class Traveller:
    def __init__(self, start: nn.Module) -> None:
        self.last = nn.utils.parameters_to_vector(start.parameters()).detach().clone()
        self.start, self.sum = self.last.clone(), torch.zeros_like(self.last)
        self.steps = self.back = 0

    def observe(self, net: nn.Module, taken: StepTaken) -> None:
        now = nn.utils.parameters_to_vector(net.parameters()).detach().clone()
        assert taken.rate > 0
        if not taken.accepted:
            assert torch.equal(now, self.last)  # the tracker is where the network is
            self.back += 1
            return
        self.sum, self.last, self.steps = self.sum + (now - self.last), now, self.steps + 1

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[tuple[str, float, float | None]]:  # noqa: ARG002
        now = nn.utils.parameters_to_vector(net.parameters()).detach()
        yield "gap", float((self.start + self.sum - now).abs().max()), None
        yield "steps", float(self.steps), None

    def state(self) -> dict[str, Tensor]:
        return {"last": self.last, "sum": self.sum, "steps": torch.tensor(self.steps)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.last, self.sum, self.steps = state["last"], state["sum"], int(state["steps"])


def test_trackers_go_back_with_their_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES.lines, "road", Listed("road", f"{__name__}:Road"))
    plan = study(probe={"measures": ["loss", "road"], "every": "epoch"})
    whole, stopped = Store(tmp_path / "whole"), Store(tmp_path / "stopped")
    assert sweep(whole, plan, engine=Here()).complete
    for point in plan.points:
        records = whole.trial(point.trial.id).records
        assert {r.epoch: r.value for r in records if r.key == "steps"} == {e: 5.0 * e for e in range(13)}
        assert max(r.value for r in records if r.key == "gap") < 1e-5
    rounds = 0
    while not sweep(stopped, plan, engine=Here(checkpoint_seconds=0.0), stop=after(23)).complete:
        rounds += 1
    assert rounds > 5
    assert fingerprint(stopped) == fingerprint(whole)


@pytest.mark.parametrize(
    "changes", [{"rate": {"name": "scheduled"}}, {"optimizer": "sam"}, {"optimizer": "adamw"}]
)
def test_other_steps_resume_to_the_same_bytes(changes: dict[str, Any], tmp_path: Path) -> None:
    plan = study(training={**TRAINING, "rate": None, "learning_rate": 0.05, **changes}, grid={"seed": [0, 1]})
    whole, stopped = Store(tmp_path / "whole"), Store(tmp_path / "stopped")
    assert sweep(whole, plan, engine=Here()).complete
    while not sweep(stopped, plan, engine=Here(checkpoint_seconds=0.0), stop=after(6)).complete:
        pass
    assert fingerprint(stopped) == fingerprint(whole)
