"""From a configuration to data, points and labels."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from undertow.config.trial import TrialConfig, validate
from undertow.core.errors import ConfigError
from undertow.execution.build import build_data, build_points
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.runs import Store

from .sweeps import tiny_study


def _trial(**probe: object) -> TrialConfig:
    document = {
        "data": {"name": "digits", "normalise": "unit-norm", "task": "parity", "limit": 40},
        "model": {"name": "two-layer", "width": 4},
        "probe": probe,
    }
    return validate(TrialConfig, document)


def test_measured_on_what_was_trained_on_unless_told_otherwise() -> None:
    trial = _trial(limit=7)
    data = build_data(trial.data)
    points = build_points(trial, data)
    assert torch.equal(points.x, data.x[:7])
    assert torch.equal(points.y, data.y[:7])


def test_another_split_keeps_normalisation_and_task() -> None:
    trial = _trial(split="test", limit=9)
    points = build_points(trial, build_data(trial.data))
    assert len(points) == 9
    torch.testing.assert_close(points.x.norm(dim=1), torch.ones(9))
    assert points.classes == 2
    assert not any(torch.equal(row, other) for row in points.x for other in build_data(trial.data).x)


def test_a_sampler_has_no_splits() -> None:
    document = {
        "data": {"name": "kou-mixture"},
        "model": {"name": "two-layer", "width": 4},
        "probe": {"split": "test"},
    }
    with pytest.raises(ConfigError, match="no splits"):
        validate(TrialConfig, document)


@pytest.mark.parametrize("loss", ["logistic", "exponential", "bce"])
def test_two_classes_train_under_every_loss_on_one_logit(loss: str, tmp_path: Path) -> None:
    study = tiny_study(
        model={"name": "two-layer", "width": 8, "init": {"name": "gaussian", "std": 0.1}, "head": "signs"},
        training={"loss": loss, "optimizer": "gd", "learning_rate": 0.05, "epochs": 20},
        probe={"measures": [{"name": "loss", "kind": loss}], "every": "epoch"},
        grid={"seed": [0, 1]},
    )
    store = Store(tmp_path)
    assert sweep(store, study, engine=Here()).complete
    means = store.frame().filter(measure="loss", key="mean").sort("trial", "step")
    for _, one in means.group_by("trial", maintain_order=True):
        assert one["value"][-1] < one["value"][0]
