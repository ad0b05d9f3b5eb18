"""The measures of clustered data in a run: what they are told, what they read, and what they refuse."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from undertow.config.grid import StudyConfig
from undertow.config.trial import validate
from undertow.core.errors import ConfigError, InputError
from undertow.execution.build import build_data, build_network, build_points
from undertow.execution.group import run_group
from undertow.measures.bias_search import BiasSearch
from undertow.measures.cluster_centres import Clusters
from undertow.measures.cluster_radius import ClusterRadius
from undertow.measures.feature_coefficients import FeatureCoefficients
from undertow.measures.feature_cosines import FeatureCosines
from undertow.measures.feature_distance import FeatureDistance
from undertow.measures.kkt_network import KktNetwork
from undertow.probe.tracking import Tracked
from undertow.store.store import Store
from undertow.theory.feature_averaging import grouped_network

MODEL = {
    "name": "two-layer",
    "width": 6,
    "init": {"name": "gaussian", "std": 1e-4, "bias": 1e-4},
    "bias": "hidden",
    "head": "balanced-signs",
}
TRAINING = {
    "learning_rate": 0.05,
    "epochs": 20,
    "loss": "logistic",
    "dtype": "float64",
    "frozen": ["output.weight"],
}


def study(measures: list[Any], **changes: Any) -> StudyConfig:
    document = {
        "data": {"name": "d-binary", "n": 24, "d": 64, "k": 4},
        "model": MODEL,
        "training": TRAINING,
        "probe": {"measures": measures, "every": "end", "split": "test", "limit": 8},
    }
    return validate(StudyConfig, {**document, **changes})


def readings(store: Store, config: StudyConfig, **options: Any) -> dict[tuple[str, str, int], float]:
    (group,) = config.groups
    assert run_group(store, group, **options).status == "finished"
    return {(r.measure, r.key, r.step): r.value for r in store.trial(group.trials[0].id).records}


def test_steps_and_least_squares_read_the_same(tmp_path: Path) -> None:
    both = [
        {"name": "feature-coefficients", "every": 5},
        {"name": "feature-coefficients", "method": "steps", "every": 5},
    ]
    found = readings(Store(tmp_path), study(both))
    name = "feature-coefficients"
    for step in (5, 10, 15, 20):
        for neuron in range(6):
            for feature in range(4):
                one = found[name, f"{neuron}:{feature}", step]
                assert one == pytest.approx(
                    found[name, f"steps:{neuron}:{feature}", step], rel=1e-7, abs=1e-9
                )
        assert found[name, "residual", step] < 1e-6
        assert found[name, "steps:residual", step] < 1e-6
    assert not any(key == "residual" and step == 0 for _, key, step in found)


CLUSTERS = {"centres": 3.0 * torch.eye(4, 8), "cluster_sign": torch.tensor([1, 1, -1, -1])}


def by_hand(weight: torch.Tensor) -> torch.nn.Module:
    """A positive and a negative neuron with the given weights."""
    hidden, output = torch.nn.Linear(8, 2, bias=False), torch.nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        hidden.weight.copy_(weight)
        output.weight.copy_(torch.tensor([[0.5, -0.5]]))
    return torch.nn.Sequential(hidden, torch.nn.ReLU(), output)


def test_cosines_by_hand() -> None:
    weight = torch.zeros(2, 8)
    weight[0, :4] = torch.tensor([3.0, 4.0, -12.0, 0.0])  # of length 13
    weight[1, :4] = torch.tensor([0.0, 0.0, 1.0, 1.0])
    found = {key: value for key, value, _ in FeatureCosines().about(CLUSTERS)(by_hand(weight), weight, None)}
    assert found["own_least"] == pytest.approx(3 / 13)
    assert found["own_largest"] == pytest.approx(1 / math.sqrt(2))
    assert found["own_mean"] == pytest.approx((3 / 13 + 4 / 13 + math.sqrt(2)) / 4)
    assert found["cross_largest"] == pytest.approx(12 / 13)  # however it points
    assert found["aligned"] == pytest.approx(7 / 13 / math.sqrt(2))  # of the worse neuron
    assert found["0:1"] == pytest.approx(4 / 13)


def test_coefficients_are_of_what_training_added() -> None:
    """The start is no feature; the first neuron gains (1, 2) of its own two and 2 of a point's noise."""
    start, change = torch.zeros(2, 8), torch.zeros(2, 8)
    start[:, 7] = 100.0
    change[0, :2], change[0, 6] = torch.tensor([1.0, 2.0]) / 3, 2.0
    change[1, 2:4] = torch.tensor([1.0, 1.0]) / 3
    x = torch.zeros(1, 8)
    x[0, 0], x[0, 6] = 3.0, 1.0
    measure = FeatureCoefficients().about(CLUSTERS)
    tracker = measure.begin(by_hand(start), x, torch.ones(1), learning_rate=0.1)
    found = {key: value for key, value, _ in tracker.read(by_hand(start + change), x, None)}
    assert found["0:1"] == pytest.approx(2.0)
    assert (found["own_least"], found["own_ratio"]) == pytest.approx((1.0, 2.0))
    length = math.sqrt(5 / 9 + 4)
    assert found["aligned"] == pytest.approx(1 / length / math.sqrt(2), rel=1e-5)
    assert found["noise_share"] == pytest.approx(2 / math.sqrt(5 / 9 + 4 + 2 / 9), rel=1e-5)
    assert found["residual"] < 1e-5


@pytest.mark.parametrize(("method", "shown"), [("least-squares", False), ("steps", True)])
def test_only_the_method_by_steps_is_shown_them(method: Any, shown: bool) -> None:
    """Whatever is shown every step holds the training of its group to single steps."""
    measure = FeatureCoefficients(method=method).about(CLUSTERS)
    tracker = measure.begin(by_hand(torch.ones(2, 8)), torch.ones(1, 8), torch.ones(1), learning_rate=0.1)
    assert Tracked(measure.name, tracker).observes is shown


def test_an_interrupted_run_gives_the_same_records(tmp_path: Path) -> None:
    config = study([{"name": "feature-coefficients", "method": "steps", "every": 5}])
    (group,) = config.groups
    whole, parts = Store(tmp_path / "whole"), Store(tmp_path / "parts")
    run_group(whole, group)
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked == 4

    assert run_group(parts, group, stop=stop).status == "interrupted"
    assert run_group(parts, group).status == "finished"
    trial = group.trials[0].id
    assert whole.trial(trial).files["records.jsonl"] == parts.trial(trial).files["records.jsonl"]


def test_sides_of_the_radius_are_in_order(tmp_path: Path) -> None:
    eps = [0.1, 0.3, 0.5, 1.0]
    found = readings(
        Store(tmp_path), study([{"name": "cluster-radius", "exact": 8, "eps": eps, "shorten": False}])
    )
    value = {key: reading for (_, key, _), reading in found.items()}
    assert value["certified"] <= value["exact"] <= value["attacked"] <= value["averaged"]
    assert value["exact/attacked"] == pytest.approx(value["exact"] / value["attacked"])
    for limit in eps:
        sides = [value[f"{side}@{limit!r}"] for side in ("certified", "attacked", "averaged")]
        assert sides == sorted(sides)
    assert value["accuracy"] == 1.0
    assert value["attacked@1.0"] == 0.0


def test_both_decisions_of_a_network_with_one_output_for_each_cluster(tmp_path: Path) -> None:
    config = study(
        [
            {"name": "cluster-radius", "exact": 8},
            {"name": "cluster-radius", "decision": "native", "exact": 8},
        ],
        data={"name": "d-binary", "n": 24, "d": 64, "k": 4, "labels": "clusters"},
        model={**MODEL, "width": 4, "bias": "none", "head": "class-means"},
        training={**TRAINING, "loss": "cross-entropy"},
    )
    value = {key: reading for (_, key, _), reading in readings(Store(tmp_path), config).items()}
    assert value["native:certified"] <= value["native:exact"] <= value["native:attacked"]
    # what changes the read-out's sign need not change the largest output, and the other way round
    assert value["exact"] != pytest.approx(value["native:exact"], rel=1e-3)
    assert "native:averaged" not in value


def test_the_probes_points_are_new_ones_around_the_same_centres() -> None:
    config = study(["loss"])
    trial = config.points[0].trial
    data = build_data(trial.data)
    points = build_points(trial, data)
    assert points.details["centres"].equal(data.details["centres"])
    assert len(points) == 8
    assert not points.x[0].equal(data.x[0])
    same = study(["loss"], probe={"measures": ["loss"], "limit": 3})
    assert build_points(same.points[0].trial, data).x.equal(data.x[:3])


def test_constructed_networks_are_built_from_the_datas_centres(tmp_path: Path) -> None:
    config = study(
        [{"name": "cluster-radius", "exact": 8, "shorten": False}],
        model={"name": "grouped-centres"},
        training={"epochs": 0, "loss": "logistic", "dtype": "float64"},
    )
    trial = config.points[0].trial
    data = build_data(trial.data)
    net = build_network(trial, data)
    assert net(data.details["centres"].double()).flatten().sign().equal(data.details["cluster_sign"].double())
    value = {key: reading for (_, key, _), reading in readings(Store(tmp_path), config).items()}
    # half the distance between centres, up to the points' noise: about 1/√d, on a mean of eight
    assert value["exact"] == pytest.approx(math.sqrt(0.5), abs=0.1)


def test_what_cannot_be_configured_is_told() -> None:
    mixture = {
        "data": {"name": "kou-mixture", "n": 4, "d": 8},
        "model": {"name": "grouped-centres"},
        "probe": {"measures": ["loss"]},
    }
    with pytest.raises(ConfigError, match="grouped-centres is one logit"):
        study(["loss"], **mixture).points  # noqa: B018
    with pytest.raises(ConfigError, match=r"probe.split = 'test'"):
        study(["loss"], probe={"measures": ["loss"], "split": "all"}).points  # noqa: B018
    with pytest.raises(ConfigError, match="did you mean 'native'"):
        ClusterRadius(decision="nativ")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="did you mean 'steps'"):
        FeatureCoefficients(method="step")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"cluster-radius.eps.0 = 0.0: should be greater than 0"):
        ClusterRadius(eps=(0.0,))


@pytest.mark.parametrize(
    "measure",
    [FeatureCosines(), FeatureCoefficients(), ClusterRadius(), BiasSearch(), KktNetwork(), FeatureDistance()],
)
def test_measures_ask_for_the_clusters(measure: Any) -> None:
    with pytest.raises(InputError, match="does not know the clusters"):
        list(measure(torch.nn.Identity(), torch.ones(1, 2), None))
    with pytest.raises(ConfigError, match="such as d-binary"):
        measure.about({})


def test_points_belong_to_their_nearest_centre() -> None:
    from undertow.data import d_binary

    for cosine in (0.0, 0.3):
        data = d_binary(n=200, d=100, k=8, cosine=cosine, seed=4)
        clusters = Clusters(data.details["centres"].double(), data.details["cluster_sign"])
        assert clusters.nearest(data.x).equal(data.details["cluster"])


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_cluster_radii_are_in_the_units_of_the_input(unit: float) -> None:
    signs = torch.tensor([1, 1, -1, -1])
    noise = torch.randn(4, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    centres = math.sqrt(8) * torch.eye(4, 8, dtype=torch.float64)

    def measured(unit: float) -> dict[str, float]:
        net = grouped_network(unit * centres, signs, dtype=torch.float64)
        details = {"centres": unit * centres, "cluster_sign": signs}
        measure = ClusterRadius(eps=(0.3 * unit,), reach=unit, exact=4).about(details)
        labels = (signs > 0).long()
        return {key: value for key, value, _ in measure(net, unit * (centres + 0.2 * noise), labels)}

    here, there = measured(1.0), measured(unit)
    assert here["proved"] == there["proved"] == 1.0
    assert 0 < here["certified"] <= here["exact"] <= here["attacked"] * (1 + 1e-9)
    for side in ("certified", "exact", "attacked", "averaged"):
        assert there[side] / unit == pytest.approx(here[side], rel=1e-6), side
        if side != "exact":
            assert there[f"{side}@reach"] == here[f"{side}@reach"]
            assert there[f"{side}@{0.3 * unit!r}"] == here[f"{side}@0.3"]
    assert there["steepness"] * unit == pytest.approx(here["steepness"], rel=1e-6)


def test_a_measure_told_of_its_data_takes_its_own_points_too(tmp_path: Path) -> None:
    """``points`` of a measure is a ``limit`` of its own, whatever the measure makes of itself."""
    values = []
    for place, few in enumerate([{"points": 3}, {"limit": 3}, {}]):
        config = study(["loss", {"name": "useful-features", **few}, {"name": "energy", **few}])
        found = readings(Store(tmp_path / str(place)), config)
        values.append({key: value for key, value in found.items() if key[0] != "loss"})
    assert values[0] == values[1] != values[2]
