"""Members measured together: the readings of each alone, whatever the architecture, and the same bytes on resuming."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

from tests.execution.sweeps import fingerprint
from undertow.adversary.risk import risk_bound
from undertow.config.grid import StudyConfig
from undertow.config.trial import validate
from undertow.core.errors import ConfigError, InputError, ModelError
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.measures import first_order_risk, printed
from undertow.measures.chain import Chain
from undertow.measures.chain_norms import chain_norms
from undertow.measures.collaboration import collaboration
from undertow.measures.printed import PrintedCollaboration
from undertow.models import Scaled, two_layer
from undertow.probe import (
    Accuracy,
    Collaboration,
    Energy,
    Loss,
    Measure,
    Probe,
    RiskBound,
    RobustAccuracy,
    StableRank,
)
from undertow.probe.batched import read_batched
from undertow.store.store import Store


def networks(*, activation: Any = "relu", width: int = 70, outputs: int = 1) -> list[nn.Module]:
    return [
        two_layer(
            inputs=80,
            width=width,
            outputs=outputs,
            activation=activation,
            init=Scaled(0.05 * seed),
            head="gaussian",
            generator=torch.Generator().manual_seed(seed),
        ).eval()
        for seed in range(3)
    ]


def points(*, classes: int = 2) -> tuple[Tensor, Tensor]:
    return torch.randn(9, 80, generator=torch.Generator().manual_seed(5)), torch.arange(9) % classes


def agree(measure: Measure, nets: list[nn.Module], x: Tensor, y: Tensor) -> None:
    together = read_batched(measure, nets, x, y)
    for net, readings in zip(nets, together, strict=True):
        for (key, value, error), (own, alone, its) in zip(readings, measure(net, x, y), strict=True):
            assert key == own
            assert (error is None) == (its is None)
            allowed = (error or 0.0) + (its or 0.0) if key.endswith("co_correlation") else 0.0
            assert value == pytest.approx(alone, rel=3e-6, abs=max(allowed, 1e-6))


MEASURES: list[Measure] = [
    Collaboration(seam="activation"),
    Collaboration(seam="hidden"),
    Chain(seams=("activation",)),
    Chain(seams=("hidden",)),
    Energy(),
    Accuracy(),
    Loss(),
    StableRank(),
]


@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize("activation", ["relu", "linear", "tanh"])
@pytest.mark.parametrize("measure", MEASURES, ids=lambda each: str(each)[:26])
def test_together_is_each_alone(measure: Measure, activation: str, outputs: int) -> None:
    x, y = points(classes=max(outputs, 2))
    agree(measure, networks(activation=activation, outputs=outputs), x, y)


@pytest.mark.parametrize(
    "measure", [Collaboration(seam="1"), Chain(seams=("1", "2")), Energy(), Accuracy(), Loss()], ids=str
)
def test_networks_of_other_kinds_are_measured_too(measure: Measure) -> None:
    torch.manual_seed(0)
    nets: list[nn.Module] = [
        nn.Sequential(nn.Conv1d(1, 2, 5), nn.ReLU(), nn.Flatten(), nn.Linear(152, 3)).eval() for _ in range(2)
    ]
    x, y = points(classes=3)
    agree(measure, nets, x[:, None, :], y)


def test_robust_accuracy_is_that_of_each() -> None:
    x, y = points()
    agree(RobustAccuracy(eps=(0.1, 1.0), attack="apgd-ce"), networks(width=16), x, y)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_risk_bound_is_that_of_each_attacked_at_once(outputs: int) -> None:
    x, y = points(classes=max(outputs, 2))
    measure, nets = RiskBound(radii=(0.01, 0.5), unit=2.0), networks(width=16, outputs=outputs)
    agree(measure, nets, x, y)
    with mock.patch.object(first_order_risk, "risk_bound", wraps=risk_bound) as attack:
        read_batched(measure, nets, x, y)
    assert attack.call_count == 1


def test_both_printed_forms_come_from_the_same_norms() -> None:
    (net, *_), (x, y) = networks(), points()
    with mock.patch.object(printed, "chain_norms", wraps=chain_norms) as norms:
        found = {key: value for key, value, _ in PrintedCollaboration(seam="activation")(net, x, y)}
    assert norms.call_count == 3  # one for each method
    for form in ("equation-9", "algorithm-1"):
        for method in ("auto", "power"):
            own = collaboration(net, x, seam="activation", form=form, method=method)  # type: ignore[call-overload]
            assert found[f"{form}:{method}"] == own.co_correlation


@pytest.mark.parametrize("measure", [Collaboration(seam="activation"), Chain(seams=("activation",))], ids=str)
def test_a_broken_network_is_named_as_it_is_alone(measure: Measure) -> None:
    nets, (x, y) = networks(), points()
    nets[1].get_parameter("hidden.weight").data.fill_(float("nan"))
    with pytest.raises(ModelError, match="NaN or Inf"):
        read_batched(measure, nets, x, y)


def test_measuring_together_leaves_no_trace() -> None:
    nets, (x, y) = networks(), points()
    nets[0].train()
    state = torch.get_rng_state()
    read_batched(Energy(), nets, x, y)
    assert [net.training for net in nets] == [True, False, False]
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for net in nets for parameter in net.parameters())


def test_options_of_the_collaboration_are_checked() -> None:
    wrong: list[dict[str, Any]] = [{"rtol": 0.0}, {"rtol": True}, {"warm": 1}, {"cold_every": 0}]
    for options in wrong:
        ((name, value),) = options.items()
        with pytest.raises(ConfigError, match=f"^collaboration.{name} = {value}: should be"):
            Collaboration(seam="1", **options)


def test_a_looser_tolerance_is_recorded_as_a_larger_error() -> None:
    (net, *_), (x, y) = networks(width=200), points()
    (_, tight, small), *_ = Collaboration(seam="activation", rtol=1e-4)(net, x, y)
    (_, loose, large), *_ = Collaboration(seam="activation", rtol=0.05)(net, x, y)
    assert small is not None
    assert large is not None
    assert small < large
    assert abs(tight - loose) <= small + large


def warm_study(*, warm: bool) -> StudyConfig:
    """Networks wide enough for Lanczos, measured at eight moments, the first and every third of them cold."""
    return validate(
        StudyConfig,
        {
            "name": "warm",
            "data": {"name": "kou-mixture", "n": 8, "d": 90, "sigma_p": 0.3},
            "model": {"name": "two-layer", "width": 100, "init": {"name": "scaled", "q": 0.1}},
            "training": {"learning_rate": 0.3, "epochs": 14, "loss": "bce"},
            "probe": {
                "measures": [{"name": "collaboration", "seam": "activation", "warm": warm, "cold_every": 3}],
                "every": 2,
            },
            "grid": {"seed": [0], "q": [0.0, 0.1, 0.2]},
        },
    )


def rises(store: Store) -> tuple[list[float], list[float]]:
    records = [
        record
        for trial in store.finished()
        for record in store.trial(trial).records
        if record.key == "activation:co_correlation"
    ]
    return [record.value for record in records], [record.error or 0.0 for record in records]


def test_warm_values_are_the_cold_ones_with_an_honest_error(tmp_path: Path) -> None:
    stores = {warm: Store(tmp_path / str(warm)) for warm in (True, False)}
    for warm, store in stores.items():
        assert sweep(store, warm_study(warm=warm), engine=Here()).complete
    by_q = {
        warm: sorted(
            (study.columns["q"], record.step, record.value, record.error)
            for study in warm_study(warm=warm).points
            for record in store.trial(study.trial.id).records
            if record.key == "activation:co_correlation"
        )
        for warm, store in stores.items()
    }
    assert len(by_q[True]) == 3 * 8
    for (_, step, value, error), (_, _, cold, its) in zip(by_q[True], by_q[False], strict=True):
        assert value == pytest.approx(cold, rel=1e-3)
        assert error is not None
        assert its is not None
        if step % 6 == 0:
            assert error == pytest.approx(its, rel=1e-6)  # this one was cold
        else:
            assert error > 3 * its


def after(looks: int) -> Callable[[], bool]:
    seen = itertools.count(1)
    return lambda: next(seen) >= looks


def test_warm_starts_resume_to_the_same_bytes(tmp_path: Path) -> None:
    whole, stopped = Store(tmp_path / "whole"), Store(tmp_path / "stopped")
    sweep(whole, warm_study(warm=True), engine=Here())
    rounds = 0
    while not sweep(
        stopped, warm_study(warm=True), engine=Here(checkpoint_seconds=0.0), stop=after(5)
    ).complete:
        rounds += 1
    assert rounds > 2
    assert fingerprint(stopped) == fingerprint(whole)


def test_a_probe_follows_a_warm_measure() -> None:
    (net, *_), (x, y) = networks(width=100), points()
    measure = Collaboration(seam="activation", warm=True)
    with pytest.raises(InputError, match="training="):
        Probe(net, x, y, measures=[measure])
    probe = Probe(net, x, y, measures=[measure], every=1, training=(x, y, 0.1))
    probe.step()
    first, second = (r for r in probe.records if r.key.endswith("co_correlation"))
    assert second.value == pytest.approx(first.value, rel=1e-3)
    assert first.error is not None
    assert second.error is not None
    assert second.error > first.error
