"""Falls of the smoothed margin, followed step by step, against margins measured after every step in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.execution.sweeps import fingerprint, tiny_study
from undertow.config.grid import StudyConfig
from undertow.core.errors import ModelError
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.measures.margin_falls import MarginFalls
from undertow.measures.margins import margins
from undertow.measures.step_geometry import log_gradient
from undertow.models import Gaussian, mlp
from undertow.store.store import Store
from undertow.training.taken import StepTaken


def oracle(values: list[float]) -> dict[str, float]:
    """From γ̃ after every step from t0 on."""
    pairs = list(itertools.pairwise(values))
    highest = itertools.accumulate(values, max)
    return {
        "total": sum(max(a - b, 0.0) for a, b in pairs) / values[-1],
        "deepest": max(1 - now / top for now, top in zip(values, highest, strict=True)),
        "count": float(sum(b < a for a, b in pairs)),
        "steps": float(len(pairs)),
    }


@pytest.mark.parametrize("outputs", [1, 3])
def test_falls_are_those_of_margins_measured_after_every_step(outputs: int) -> None:
    generator = torch.Generator().manual_seed(3)
    net = mlp(inputs=4, widths=[6], outputs=outputs, init=Gaussian(0.5), generator=generator)
    x = torch.randn(30, 4, generator=generator)
    x[:, :2] += 2 * x[:, :2].sign()
    y = (x[:, 0] > 0).long() + (outputs > 1) * (x[:, 1] > 0).long()
    signs = 2.0 * y - 1 if outputs == 1 else y
    tracker = MarginFalls().begin(net, x, signs, learning_rate=0.3)
    assert list(tracker.read(net, x, y)) == []  # before t0 there is no margin to fall
    values = []
    for _ in range(300):
        # With random steps among those down the loss γ̃ falls often.
        slope = log_gradient(net, x, signs)[1]
        way = 0.3 * slope / slope.norm() + 0.05 * torch.randn(slope.shape, generator=generator)
        torch.nn.utils.vector_to_parameters(
            torch.nn.utils.parameters_to_vector(net.parameters()) - way.float(), net.parameters()
        )
        tracker.observe(net, StepTaken(0.3))
        found = margins(net, x, y)
        if found.smoothed > 0:
            values.append(found.smoothed)
    read = {key: value for key, value, _ in tracker.read(net, x, y)}
    expected = oracle(values)
    assert read == pytest.approx(expected, rel=1e-9)
    assert expected["count"] > 10
    assert expected["total"] > expected["deepest"] > 0


def test_a_fall_that_comes_back_is_counted_in_the_total_and_not_in_depth() -> None:
    net, x, y = (
        nn.Linear(1, 1, bias=False).double(),
        torch.ones(2, 1).double() * torch.tensor([[1.0], [2.0]]),
        torch.ones(2),
    )
    tracker = MarginFalls(loss="exponential").begin(net, x, y, learning_rate=0.1)
    values = []
    for weight in (5.0, 4.0, 5.0, 4.0, 6.0, 3.0, 50.0):
        net.weight.data.fill_(weight)
        tracker.observe(net, StepTaken(0.1))
        values.append((weight - math.log1p(math.exp(-weight))) / weight)
    read = {key: value for key, value, _ in tracker.read(net, x, y)}
    assert read == pytest.approx(oracle(values), rel=1e-9)
    assert read["count"] == 3.0


def test_a_network_that_no_power_fits_is_refused_with_a_remedy() -> None:
    flat = nn.Sequential(nn.Linear(2, 3), nn.Tanh()).double()
    with pytest.raises(ModelError, match=r"does not grow.*leave it out"):
        MarginFalls().begin(flat, torch.eye(2).double(), torch.tensor([0, 1]), learning_rate=0.1)


def after(looks: int) -> Callable[[], bool]:
    """Whether to stop: when asked so often."""
    seen = itertools.count(1)
    return lambda: next(seen) >= looks


def study(length: float, **changes: Any) -> StudyConfig:
    document: dict[str, Any] = {
        "data": {"name": "d-binary", "n": 10, "d": 6, "k": 2, "sigma": 0.3},
        "model": {"name": "mlp", "widths": [16], "init": {"name": "gaussian", "std": 0.1}},
        "training": {
            "optimizer": "normalised-gd",
            "objective": "log-loss",
            "learning_rate": length,
            "epochs": 150,
            "loss": "logistic",
        },
        "probe": {"measures": ["margins", {"name": "margin-falls", "every": "end"}], "every": 1},
        "grid": {"seed": [0, 1, 2]},
        "own_data": True,
    }
    return tiny_study(**{**document, **changes})


def test_a_group_is_followed_at_once_and_each_network_has_its_own_falls(tmp_path: Path) -> None:
    store, plan = Store(tmp_path), study(0.5)
    assert sweep(store, plan, engine=Here()).complete
    totals = []
    for point in plan.points:
        rows = store.trial(point.trial.id).records
        values = [r.value for r in rows if (r.measure, r.key) == ("margins", "smoothed") and r.value > 0]
        read = {r.key: r.value for r in rows if r.measure == "margin-falls"}
        expected = oracle(values)
        assert read["steps"] == expected["steps"]
        assert read["total"] == pytest.approx(expected["total"], rel=1e-3, abs=1e-5)  # trained in float32
        assert read["deepest"] == pytest.approx(expected["deepest"], rel=1e-3, abs=1e-5)
        totals.append(read["total"])
    assert max(totals) > 1e-3
    assert len(set(totals)) == 3


def test_a_run_that_is_interrupted_remembers_its_falls(tmp_path: Path) -> None:
    whole, pieces, plan = Store(tmp_path / "a"), Store(tmp_path / "b"), study(0.5)
    sweep(whole, plan, engine=Here())
    for looks in (3, 5, 2):
        sweep(pieces, plan, engine=Here(checkpoint_seconds=0), stop=after(looks))
    sweep(pieces, plan, engine=Here())
    assert fingerprint(pieces) == fingerprint(whole)


def test_steps_that_are_taken_back_are_no_fall(tmp_path: Path) -> None:
    training = {
        "optimizer": "gd",
        "learning_rate": 0.1,
        "rate": {"name": "loss-based", "frame_at_start": 10.0},
        "epochs": 4000,
        "loss": "logistic",
        "stop_below": -6.0,
    }
    store = Store(tmp_path)
    plan = study(0.5, training=training, probe={"measures": ["margins", "margin-falls"], "every": "epoch"})
    assert sweep(store, plan, engine=Here()).complete
    taken_back = 0
    for point in plan.points:
        stored = store.trial(point.trial.id)
        taken_back += stored.status["tries"] - stored.status["step"]
        rows = stored.records
        values = [r.value for r in rows if (r.measure, r.key) == ("margins", "smoothed") and r.value > 0]
        read = {r.key: r.value for r in rows if r.measure == "margin-falls"}
        expected = oracle(values)
        # A step that was taken back is compared once more where the network stands again: it is no fall.
        assert read["total"] == pytest.approx(expected["total"], rel=1e-3, abs=1e-5)
        assert read["count"] == pytest.approx(expected["count"], abs=2)
    assert taken_back > 0
