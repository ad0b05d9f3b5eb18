"""Measures with a split of their own: one training gives what a training for each split gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.execution.sweeps import tiny_study
from undertow.config.grid import StudyConfig
from undertow.core.errors import ConfigError
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.store.store import Store


def study(*measures: Any, **probe: Any) -> StudyConfig:
    return tiny_study(
        data={"name": "separable", "n": 30, "d": 4},
        model={"name": "mlp", "widths": [6]},
        training={"optimizer": "gd", "learning_rate": 0.5, "epochs": 5, "loss": "logistic"},
        probe={"measures": list(measures), "every": "ends", **probe},
        grid={"seed": [0, 1]},
        own_data=True,
    )


def values(store: Store, plan: StudyConfig, measure: str) -> list[tuple[int, str, float]]:
    trials = [store.trial(point.trial.id) for point in plan.points]
    return [(r.step, r.key, r.value) for trial in trials for r in trial.records if r.measure == measure]


def test_one_training_gives_the_records_of_both(tmp_path: Path) -> None:
    store = Store(tmp_path)
    radii = {"name": "point-radii", "shorten": False, "limit": 2}
    both = study("accuracy", {"name": "accuracy", "split": "test"}, {**radii, "split": "test"})
    trained, tested = study("accuracy"), study("accuracy", radii, split="test")
    assert sweep(store, both, trained, tested, engine=Here()).complete
    assert values(store, both, "accuracy") == values(store, trained, "accuracy")
    assert values(store, both, "accuracy@test") == values(store, tested, "accuracy")
    assert values(store, both, "point-radii@test") == values(store, tested, "point-radii")
    assert values(store, both, "accuracy") != values(store, both, "accuracy@test")


def test_a_split_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="split = 'tests'"):
        study({"name": "accuracy", "split": "tests"})
    with pytest.raises(ConfigError, match="new ones"):
        _ = study({"name": "accuracy", "split": "all"}).points
