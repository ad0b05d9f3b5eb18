"""Trials that end at a loss and are measured by decades of it: records, interruptions, identities, and the note."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.execution.sweeps import fingerprint, tiny_study
from undertow.config.grid import StudyConfig
from undertow.core.errors import ConfigError, InputError
from undertow.execution.engines.here import Here
from undertow.execution.loss_pace import LossPace
from undertow.execution.sweep import sweep
from undertow.measures.loss import Loss
from undertow.models import Gaussian, mlp
from undertow.probe import Probe
from undertow.probe.schedule import Schedule
from undertow.store.store import Store
from undertow.training import LossBased, Recipe, Trainer

FROM_TEN = {
    "name": "loss-based",
    "frame_at_start": 10.0,
}  # some networks start above log 2, which others begin with
RULES: dict[str, dict[str, Any]] = {
    "loss-based": {"optimizer": "sgd", "batch_size": 10, "learning_rate": 0.1, "rate": FROM_TEN},
    "log-loss": {"optimizer": "gd", "learning_rate": 0.05, "objective": "log-loss"},
}


def study(rule: str, **changes: Any) -> StudyConfig:
    document: dict[str, Any] = {
        "data": {"name": "separable", "n": 30, "d": 4, "seed": 3},
        "model": {"name": "mlp", "widths": [6]},
        "training": {**RULES[rule], "epochs": 4000, "loss": "logistic", "stop_below": -45.0},
        "probe": {"measures": ["margins", {"name": "loss", "every": "end"}], "every": "10 decades"},
        "grid": {"seed": [0, 1, 2]},
    }
    return tiny_study(**{**document, **changes})


def after(looks: int) -> Callable[[], bool]:
    seen = itertools.count(1)
    return lambda: next(seen) >= looks


@pytest.mark.parametrize("rule", list(RULES))
def test_measures_are_taken_once_in_every_ten_decades(rule: str, tmp_path: Path) -> None:
    store, plan = Store(tmp_path), study(rule)
    assert sweep(store, plan, engine=Here()).complete
    for point in plan.points:
        stored = store.trial(point.trial.id)
        assert stored.status["status"] == "finished"
        rows = {(r.step, r.measure, r.key): r.value for r in stored.records}
        taken = sorted({step for step, measure, _ in rows if measure == "margins"})
        levels = [math.floor(-rows[step, "steps", "log10_loss"] / 10) for step in taken]
        assert taken[0] == 0
        assert all(later > earlier for earlier, later in itertools.pairwise(levels[:-1]))
        assert len(taken) >= 4
        last = taken[-1]
        assert rows[last, "steps", "log10_loss"] <= -45.0
        assert last == stored.status["step"] < 4000 * 3
        # The loss of the records is a mean, that of the margins a sum.
        mean = rows[last, "loss", "log10"]
        assert rows[last, "margins", "log10-loss"] == pytest.approx(mean + math.log10(30), abs=1e-3)
        assert [step for step, measure, key in rows if (measure, key) == ("loss", "mean")] == [last]
        times = [rows[step, "steps", "log_time"] for step in taken[1:]]
        assert times == sorted(times)


@pytest.mark.parametrize("rule", list(RULES))
def test_measures_are_taken_at_the_losses_listed(rule: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    plan = study(rule, probe={"measures": ["margins"], "every": "at 4, 21.5, 30 decades"})
    assert sweep(store, plan, engine=Here()).complete
    for point in plan.points:
        records = store.trial(point.trial.id).records
        rows = {(r.step, r.measure, r.key): r.value for r in records}
        taken = sorted({step for step, measure, _ in rows if measure == "margins"})
        losses = {step: rows[step, "steps", "log10_loss"] for step in taken}
        first = {min(step for step, loss in losses.items() if loss <= -level) for level in (4, 21.5, 30, 45)}
        assert set(taken) == first  # one reading where an epoch has passed two of them
        told = [(r.step, r.value) for r in records if (r.measure, r.key) == ("steps", "log10_loss")]
        assert not any(step < taken[0] and loss <= -4 for step, loss in told)


@pytest.mark.parametrize("rule", list(RULES))
def test_interruptions_change_nothing(rule: str, tmp_path: Path) -> None:
    whole, torn = Store(tmp_path / "whole"), Store(tmp_path / "torn")
    assert sweep(whole, study(rule), engine=Here()).complete
    for looks in (2, 3, 5, 8, 13):
        sweep(torn, study(rule), engine=Here(), stop=after(looks))
    assert sweep(torn, study(rule), engine=Here()).complete
    assert fingerprint(torn) == fingerprint(whole)


def test_identities_of_trials_without_an_end_are_what_they_were() -> None:
    plan = tiny_study()
    written = plan.points[0].trial.training.model_dump(mode="json")
    assert "stop_below" not in written
    assert plan.points[0].trial.id == tiny_study(
        training={"optimizer": "sgd", "batch_size": 2, "learning_rate": 0.05, "epochs": 12, "stop_below": None}
    ).points[0].trial.id  # fmt: skip


def test_schedules_by_levels() -> None:
    loss, time = Schedule("2 decades"), Schedule("0.5 time-decades", steps_per_epoch=3)
    assert (loss.level, time.level, Schedule("decade").level, Schedule(3).level) == (
        "loss",
        "time",
        "loss",
        None,
    )
    assert (loss.passed(-1.9, -2.1), loss.passed(-2.1, -3.9), loss.passed(-3.9, -3.9)) == (True, False, False)
    assert not loss.passed(-2.1, -1.9)  # upwards
    assert (time.passed(-math.inf, -3.0), time.passed(0.4, 0.6)) == (True, True)
    assert (loss.due(0), loss.due(8), loss.next(0), time.next(0)) == (True, False, 8, 9)
    assert loss.upto(100) == [0]
    listed = Schedule("at 5, 12.5 decades")
    assert (listed.level, listed.due(0), listed.next(0)) == ("loss", False, 8)
    pairs = [(math.inf, -4.9), (math.inf, -5.0), (-5.0, -12.4), (-5.0, -12.5), (-12.6, -900.0), (-5.1, -4.9)]
    assert [listed.passed(*pair) for pair in pairs] == [False, True, False, True, False, False]
    for wrong in ("0 decades", "-1 decades", "decades of it", "ten decades", "at decades", "at 5,7 decades"):
        with pytest.raises(InputError, match="no schedule"):
            Schedule(wrong)
    with pytest.raises(ConfigError, match="every"):
        study("log-loss", probe={"measures": ["loss"], "every": "tenth decade"})


def test_a_probe_in_someone_elses_loop_says_what_to_do() -> None:
    net = torch.nn.Linear(2, 1)
    with pytest.raises(InputError, match="call the probe itself"):
        Probe(net, torch.ones(1, 2), torch.ones(1), measures=[Loss()], every="decade")


def test_the_note_tells_loss_tries_and_time_left() -> None:
    x = torch.tensor([[1.0], [-1.0], [2.0], [-0.5]])
    start = mlp(
        inputs=1, widths=[], outputs=1, init=Gaussian(0.1), generator=torch.Generator().manual_seed(0)
    )
    recipe = Recipe(
        optimizer="gd", learning_rate=0.1, epochs=60, loss="logistic", rate=LossBased(frame_at_start=10.0)
    )
    trainer = Trainer([start], x, x.sign().flatten(), [recipe])
    ticks = itertools.count()
    pace = LossPace(trainer, clock=lambda: float(next(ticks)))
    notes = []
    while not trainer.done:
        trainer.run_epoch()
        pace.look()
        notes.append(pace.note)
    assert notes[0].startswith("log10 L -0.")
    assert "tries per epoch kept" in notes[-1]
    assert any("10^-" in note and " in about " in note for note in notes)


def test_the_note_of_a_run_that_ends_at_a_loss_tells_it_too() -> None:
    """Without tries: where it stands and the time to the next power of ten, asked no more often than training asks."""
    x = torch.tensor([[1.0], [-1.0], [2.0], [-0.5]])
    start = mlp(
        inputs=1, widths=[], outputs=1, init=Gaussian(0.1), generator=torch.Generator().manual_seed(0)
    )
    recipe = Recipe(
        optimizer="gd", learning_rate=0.1, epochs=4000, loss="logistic", objective="log-loss", stop_below=-9.0
    )
    trainer = Trainer([start], x, x.sign().flatten(), [recipe])
    ticks = itertools.count()
    pace = LossPace(trainer, clock=lambda: float(next(ticks)))
    asked: list[int] = []
    log_loss = trainer.log_loss
    trainer.log_loss = lambda: (asked.append(trainer.step), log_loss())[1]  # type: ignore[method-assign, func-returns-value]
    notes = []
    while not trainer.done:
        trainer.advance(3)
        pace.look()
        notes.append(pace.note)
    assert next(filter(None, notes)).startswith("log10 L -0.")
    assert "tries" not in notes[-1]
    assert any("10^-8 in about " in note for note in notes)
    assert float(notes[-1].split()[2].rstrip(",")) < -8.0
    assert all(later - earlier >= trainer.look_every for earlier, later in itertools.pairwise(asked))


def test_the_note_of_a_run_with_a_number_of_epochs_is_empty() -> None:
    x = torch.tensor([[1.0], [-1.0]])
    start = mlp(
        inputs=1, widths=[], outputs=1, init=Gaussian(0.1), generator=torch.Generator().manual_seed(0)
    )
    trainer = Trainer(
        [start],
        x,
        x.sign().flatten(),
        [Recipe(optimizer="gd", learning_rate=0.1, epochs=50, loss="logistic")],
    )
    pace = LossPace(trainer)
    trainer.advance(50)
    pace.look()
    assert pace.note == ""
