"""Radii on clusters: networks and points whose every reading is known by heart, the centres themselves."""

from __future__ import annotations

import dataclasses
import importlib
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from undertow.data import cluster_centres
from undertow.measures.bias_search import BiasSearch
from undertow.measures.cluster_radius import ClusterRadius
from undertow.theory.feature_averaging import THRESHOLD, grouped_network, read_out_radius

D, K = 60, 6
SIGNS = torch.where(
    torch.arange(K) < 2, 1, -1
)  # not half of them: a read-out with its signs exchanged would show
CENTRES = cluster_centres(k=K, d=D, seed=1)
DETAILS = {"centres": CENTRES, "cluster_sign": SIGNS}


def values(measure: Any, net: nn.Module, y: Tensor) -> dict[str, float]:
    return {key: value for key, value, _ in measure.about(DETAILS)(net, CENTRES, y)}


def averaged() -> nn.Module:
    """One neuron for each class, ReLU(⟨Σ μ_j, x⟩)/‖μ‖²: at (1, 0) or (0, 1) on the centres."""
    return grouped_network(CENTRES, SIGNS, group=K, threshold=0.0, dtype=torch.float64)


def decoupled() -> nn.Module:
    """One neuron and one output for each cluster."""
    hidden, output = nn.Linear(D, K, bias=False), nn.Linear(K, K, bias=False)
    net = nn.Sequential(nn.Flatten(), hidden, nn.ReLU(), output).double()
    with torch.no_grad():
        hidden.weight.copy_(CENTRES / D)
        output.weight.copy_(torch.eye(K))
    return net


def test_averaged_features_break_at_their_radius() -> None:
    # Both neurons move by √|J|/√d for every unit of length, in orthogonal directions: 1 = t √(|J₊| + |J₋|)/√d.
    radius = 1 / math.sqrt(K)
    labels = (SIGNS > 0).long()
    inside, outside = (
        values(ClusterRadius(reach=reach, eps=(0.99 * radius, 1.01 * radius)), averaged(), labels)
        for reach in (0.99, 1.01)
    )
    assert inside["accuracy"] == 1.0
    for side in ("exact", "attacked", "averaged"):
        assert inside[side] == pytest.approx(radius, rel=1e-3), side
    for side in ("attacked", "averaged"):
        assert (inside[f"{side}@reach"], outside[f"{side}@reach"]) == (1.0, 0.0)
        assert inside[f"{side}@{0.99 * radius!r}"] == 1.0
        assert inside[f"{side}@{1.01 * radius!r}"] == 0.0


def test_steepness_is_the_gradient_at_equal_margin() -> None:
    labels = (SIGNS > 0).long()
    by_class = {1: math.sqrt(2), -1: math.sqrt(4)}  # ‖Σ_{J} μ_j‖/‖μ‖
    expected = sum(by_class[int(sign)] for sign in SIGNS) / K / 0.9
    off_the_kink = grouped_network(CENTRES, SIGNS, group=K, threshold=0.1, dtype=torch.float64)
    assert values(ClusterRadius(exact=0), off_the_kink, labels)["steepness"] == pytest.approx(expected)
    robust = grouped_network(CENTRES, SIGNS, dtype=torch.float64)
    found = values(ClusterRadius(exact=0), robust, labels)
    assert found["steepness"] == pytest.approx(1 / (1 - THRESHOLD))  # biases cost margin and no gradient


def test_both_decisions_of_decoupled_features() -> None:
    clusters = torch.arange(K)
    binary = values(ClusterRadius(exact=K, eps=(0.1,)), decoupled(), clusters)
    assert binary["accuracy"] == 1.0
    # One neuron falls and those of the other class rise: four against a positive cluster, two against a negative one.
    radii = {1: 1 / math.sqrt(5), -1: 1 / math.sqrt(3)}
    assert binary["exact"] == pytest.approx(sum(radii[int(sign)] for sign in SIGNS) / K, rel=1e-6)
    assert read_out_radius(D, 4) / math.sqrt(D) == pytest.approx(radii[-1])
    native = values(ClusterRadius(decision="native", exact=K, eps=(0.1,)), decoupled(), clusters)
    assert native["native:exact"] == pytest.approx(math.sqrt(0.5), rel=1e-6)
    wrong = values(ClusterRadius(exact=0, eps=(0.1,)), decoupled(), (clusters + 2) % K)
    assert wrong["accuracy"] == pytest.approx(
        2 / K
    )  # clusters 2 and 3 are taken for 4 and 5, of the same class


def test_the_averaged_direction_counts_among_the_attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(
        "undertow.adversary.robustness"
    )  # the package has a function of this name
    attack = module.robustness

    def blind(*arguments: Any, **options: Any) -> Any:
        found = attack(*arguments, **options)
        return dataclasses.replace(found, attacked=torch.full_like(found.attacked, math.inf))

    monkeypatch.setattr(module, "robustness", blind)
    found = values(ClusterRadius(exact=0), averaged(), (SIGNS > 0).long())
    assert found["attacked"] == found["averaged"] == pytest.approx(1 / math.sqrt(K))


def test_biases_are_searched_in_units_of_the_averaged_radius() -> None:
    labels = (SIGNS > 0).long()
    near, far = (values(BiasSearch(reach=reach, rounds=50), averaged(), labels) for reach in (0.9, 2.1))
    # The radii of both classes sum to 2; the larger class of four may have nearly all of it.
    assert 1.0 <= near["radius"] <= 4 / 3
    assert (near["robust"], far["robust"]) == (1.0, 0.0)
