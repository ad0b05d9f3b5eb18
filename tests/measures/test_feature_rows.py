"""Measures of the feature-averaging study's other rows: readings with known answers, and members measured together."""

from __future__ import annotations

import math
from typing import Any, Literal

import pytest
import torch
from torch import nn

from undertow.core.errors import ConfigError, InputError
from undertow.data.axis_clusters import axis_clusters
from undertow.data.clusters import d_binary
from undertow.data.dataset import Dataset
from undertow.data.loading import load
from undertow.data.tasks import relabel
from undertow.measures.feature_distance import FeatureDistance
from undertow.measures.kkt import KktResiduals
from undertow.measures.kkt_network import KktNetwork
from undertow.measures.linear_likeness import LinearLikeness
from undertow.measures.off_manifold import OffManifold
from undertow.measures.randomised_features import RandomisedFeatures
from undertow.measures.reading import Reading
from undertow.measures.supervision import SupervisionRobustness
from undertow.models import mlp, prelu_network, two_layer
from undertow.models.initialisation import Gaussian
from undertow.theory.frei import kkt_network


def values(readings: object) -> dict[str, float]:
    assert not isinstance(readings, dict)
    found: list[Reading] = list(readings)  # type: ignore[call-overload]
    return {key: value for key, value, _ in found}


def test_the_distance_knows_averaged_from_decoupled_networks() -> None:
    data = axis_clusters(n=10, d=8, k=4, norm=3.0, sigma=0.0)
    net: Any = prelu_network(inputs=8, width=4, power=1.0, scale=1.0, generator=torch.Generator())
    with torch.no_grad():
        net.hidden.weight.copy_(torch.eye(4, 8))
        net.output.weight.copy_(torch.tensor([[1.0, 1.0, -1.0, -1.0]]))
    found = values(FeatureDistance(starts=16).about(data.details)(net, data.x, data.y))
    assert found["decoupled:upper"] == pytest.approx(0.0, abs=1e-6)
    assert found["averaged:relative"] > 0.3
    # sup |F| is √2 between the two centres of a class
    assert found["averaged:relative"] == pytest.approx(found["averaged:lower"] / math.sqrt(2))
    with torch.no_grad():
        net.hidden.weight.copy_(
            torch.tensor([[1.0, 1.0, 0, 0]] * 2 + [[0, 0, 1.0, 1.0]] * 2) @ torch.eye(4, 8)
        )
    found = values(FeatureDistance(starts=16).about(data.details)(net, data.x, data.y))
    assert found["averaged:upper"] == pytest.approx(0.0, abs=1e-6)
    assert found["averaged:lower"] <= found["averaged:upper"]
    with pytest.raises(InputError, match="about"):
        list(FeatureDistance()(net, data.x, data.y))


def test_the_kkt_network_is_like_itself_and_flips_beyond_its_radius() -> None:
    data = d_binary(n=40, d=400, k=4, sigma=0.1)
    ideal = kkt_network(data.details["centres"], data.details["cluster_sign"], copies=2)
    net: Any = two_layer(
        inputs=400,
        width=4,
        init=Gaussian(1.0),
        bias="hidden",
        head="balanced-signs",
        generator=torch.Generator(),
    )
    with torch.no_grad():
        net.hidden.weight.copy_(ideal.weight.repeat_interleave(2, 0))
        net.hidden.bias.copy_(ideal.bias.repeat_interleave(2))
    found = values(KktNetwork(moves=(0.9, 1.1)).about(data.details)(net, data.x, data.y))
    assert found["likeness"] == pytest.approx(1.0)
    assert (found["universal@0.9"], found["universal@1.1"]) == (1.0, 0.0)
    residuals = values(KktResiduals(parameters=("hidden",))(net, data.x, data.y))
    assert 0 <= residuals["residual"] < 0.2
    assert residuals["margin"] > 0
    with pytest.raises(ConfigError, match="did you mean 'logistic'"):
        KktResiduals(loss="logistik")  # type: ignore[arg-type]


def test_kkt_readings_of_a_linear_network_by_hand() -> None:
    net = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[7.0, 7.0]]))
    x = torch.tensor(
        [[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]]
    )  # the last is far from the boundary, and supports nothing
    found = values(KktResiduals()(net, x, torch.ones(3, dtype=torch.int64)))
    assert found["margin"] == pytest.approx(1 / math.sqrt(2))
    assert found["supporting"] == pytest.approx(2 / 3)


def test_a_network_of_the_complex_feature_is_seen_as_one() -> None:
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(2, (500,), generator=draw)
    x = torch.stack([2.0 * y - 1, 2.0 * y - 1], dim=1) + 0.1 * torch.randn(500, 2, generator=draw)
    net = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0, 1.0]]))
    found = values(RandomisedFeatures(simple=1)(net, x, y))
    assert (found["none"], found["simple"]) == (1.0, 1.0)
    assert found["complex"] == pytest.approx(0.5, abs=0.08)
    with pytest.raises(InputError, match="leaves none"):
        list(RandomisedFeatures(simple=2)(net, x, y))


def test_likeness_uses_the_linear_model_of_the_training_data() -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(200, 3, generator=draw)
    y = (x[:, 0] + 0.5 * torch.randn(200, generator=draw) > 0).long()
    net = nn.Linear(3, 1)
    tracker = LinearLikeness().begin(net, x, 2 * y - 1, learning_rate=0.1)
    found = values(tracker.read(net, x, y))
    assert found["linearity"] == pytest.approx(1.0, abs=1e-6)
    assert found["linear_accuracy"] > 0.8
    assert tracker.state() == {}
    # On other points it is as if they had been the first.
    bent = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    fresh = LinearLikeness().begin(net, x, 2 * y - 1, learning_rate=0.1)
    assert values(tracker.read(bent, 2 * x[:90], y[:90])) == values(fresh.read(bent, 2 * x[:90], y[:90]))
    # The labels' other half of the plane: the same training data, another model.
    flipped = values(LinearLikeness().begin(net, x, 1 - 2 * y, learning_rate=0.1).read(net, x, y))
    assert flipped["linear_accuracy"] == pytest.approx(1 - found["linear_accuracy"])


def test_a_network_blind_to_the_plane_is_attacked_across_it_and_one_in_it_is_not() -> None:
    x = torch.zeros(12, 5)
    x[:, :2] = torch.randn(12, 2, generator=torch.Generator().manual_seed(0)).abs() + 0.5
    y = torch.ones(12, dtype=torch.int64)
    measure = OffManifold(dimension=2, plane="axes")
    net = nn.Linear(5, 1)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 1.0, 0.0, 0.0, 0.0]]))
        net.bias.zero_()
    along = values(measure(net, x, y))
    assert along["off"] == pytest.approx(0.0, abs=1e-5)
    assert along["stretch"] == pytest.approx(1.0, abs=1e-3)
    assert along["chance"] == pytest.approx(0.6)
    assert along["kept"] == 1.0
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 1.0, 3.0, 0.0, 0.0]]))
    across = values(measure(net, x, y))
    assert across["off"] == pytest.approx(9 / 11, abs=1e-3)
    assert across["stretch"] == pytest.approx((11 / 2) ** 0.5, rel=1e-2)
    with_an_error = values(measure(net, x, y * (torch.arange(12) > 2)))
    assert with_an_error["kept"] == pytest.approx(9 / 12)
    assert with_an_error["off"] == pytest.approx(9 / 11, abs=1e-3)
    thick = x + 2 * torch.eye(12, 5).flip(1)  # 2² off the plane for each of three points
    around = values(measure.begin(net, thick, y, learning_rate=0.0).read(net, x, y))
    assert around["data"] == pytest.approx(float(3 * 4 / thick.square().sum()), rel=1e-5)
    local = values(OffManifold(dimension=2, plane="axes", neighbours=6, tangent=2)(net, x, y))
    assert local["off_local"] == pytest.approx(9 / 11, abs=1e-3)
    with pytest.raises(ConfigError, match="did you mean 'pca'"):
        OffManifold(dimension=2, plane="pcaa")  # type: ignore[arg-type]


def test_supervision_reads_both_kinds_of_networks_alone_and_together() -> None:
    data = load("digits", split="test", limit=6, flatten=True)
    nets = [
        mlp(inputs=64, widths=[16], outputs=10, generator=torch.Generator().manual_seed(seed)).eval()
        for seed in range(2)
    ]
    measure = SupervisionRobustness(eps=(0.1, 2.0))
    together = measure.batched(nets, data.x, data.y)
    alone = [list(measure(net, data.x, data.y)) for net in nets]
    assert [[key for key, _, _ in each] for each in together] == [
        [key for key, _, _ in each] for each in alone
    ]
    for one, many in zip(alone, together, strict=True):
        assert values(one) == pytest.approx(values(many), abs=1 / 6 + 1e-9)
    found = values(together[0])
    sides = nets[0](data.x)
    odd = torch.arange(10) % 2 == 1
    by_sum = (sides[:, odd].sum(1) - sides[:, ~odd].sum(1) > 0) == (data.y % 2 == 1)
    by_max = (sides[:, odd].amax(1) - sides[:, ~odd].amax(1) > 0) == (data.y % 2 == 1)
    assert found["sum:gradient@0.0"] == pytest.approx(float(by_sum.double().mean()))
    assert found["max:gradient@0.0"] == pytest.approx(float(by_max.double().mean()))
    for how in ("sum:pgd", "sum:gradient", "max:gradient"):
        assert found[f"{how}@0.0"] >= found[f"{how}@0.1"] >= found[f"{how}@2.0"]
    one_logit = mlp(inputs=64, widths=[16], outputs=1, generator=torch.Generator().manual_seed(0)).eval()
    binary = values(measure(one_logit, data.x, data.y % 2))
    assert {key.partition("@")[0] for key in binary} == {"sum:pgd", "sum:gradient", "native"}
    halves = values(SupervisionRobustness(task="halves", eps=(0.1,))(nets[0], data.x, data.y))
    late = torch.arange(10) >= 5
    by_half = (sides[:, late].sum(1) - sides[:, ~late].sum(1) > 0) == (data.y >= 5)
    assert halves["sum:gradient@0.0"] == pytest.approx(float(by_half.double().mean()))
    classes = Dataset.of(torch.zeros(10, 1), torch.arange(10), name="classes", classes=10)
    tasks: tuple[Literal["parity", "halves"], ...] = ("parity", "halves")
    for task in tasks:  # the sides of a read-out are the classes that two-class networks are trained on
        assert SupervisionRobustness(task=task)._side(classes.y, 10).equal(relabel(classes, task).y)
    with pytest.raises(ConfigError, match="did you mean 'parity'"):
        SupervisionRobustness(task="party")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"supervision.eps.0 = 0.0: should be greater than 0"):
        SupervisionRobustness(eps=(0.0, 0.1))
