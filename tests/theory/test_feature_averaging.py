"""What the feature-averaging theorems predict, against exact radii of the networks they speak of."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import undertow as ut
from undertow.core.errors import InputError
from undertow.data import cluster_centres
from undertow.theory.feature_averaging import (
    THRESHOLD,
    averaged_direction,
    averaged_radius,
    grouped_network,
    grouped_radius,
    read_out_radius,
)


def centres_and_signs(d: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    return cluster_centres(k=k, d=d, seed=1), torch.where(torch.arange(k) < k // 2, 1, -1)


@pytest.mark.parametrize(("k", "group"), [(4, 1), (4, 2), (8, 1), (8, 2), (8, 4)])
@pytest.mark.parametrize("threshold", [0.0, THRESHOLD, 0.5])
def test_the_radius_of_grouped_networks_is_the_formula(k: int, group: int, threshold: float) -> None:
    mu, signs = centres_and_signs(30, k)
    net = grouped_network(mu, signs, group=group, threshold=threshold, dtype=torch.float64)
    found = ut.robustness(net, mu, (signs > 0).long(), exact=True, seconds=20, shorten=False)
    opponents = math.ceil(k / 2 / group)
    expected = grouped_radius(30, group=group, opponents=opponents, threshold=threshold)
    assert set(found.status) == {"exact"}
    torch.testing.assert_close(found.exact, torch.full_like(found.exact, expected), rtol=1e-6, atol=0)


def test_no_threshold_is_better_than_the_default() -> None:
    best = grouped_radius(100, group=1, opponents=5)
    assert best == pytest.approx(math.sqrt(50))
    for threshold in torch.linspace(0, 0.99, 100).tolist():
        assert grouped_radius(100, group=1, opponents=5, threshold=threshold) <= best + 1e-9


def test_below_the_best_thresholds_many_opponents_at_once_are_shorter() -> None:
    best = math.sqrt(1000 / 2)
    for threshold in (math.sqrt(1.5) - 1, 0.25, THRESHOLD):
        assert grouped_radius(1000, group=1, opponents=5, threshold=threshold) == pytest.approx(best)
    assert grouped_radius(1000, group=1, opponents=5, threshold=0.2) < 0.99 * best
    assert grouped_radius(1000, group=1, opponents=5, threshold=0.0) == pytest.approx(
        read_out_radius(1000, 10)
    )


def test_averaging_is_the_coarsest_grouping() -> None:
    for d, k in itertools.product((64, 3072), (4, 10)):
        assert grouped_radius(d, group=k // 2, opponents=1) == pytest.approx(averaged_radius(d, k))


def test_the_read_out_of_decoupled_neurons() -> None:
    mu, signs = centres_and_signs(24, 6)
    net = grouped_network(mu, signs, threshold=0.0, dtype=torch.float64)
    found = ut.robustness(net, mu, (signs > 0).long(), exact=True, seconds=20, shorten=False)
    torch.testing.assert_close(
        found.exact, torch.full_like(found.exact, read_out_radius(24, 6)), rtol=1e-6, atol=0
    )
    # only better by a constant than averaging, however many clusters
    for k in (4, 40, 4000):
        assert 1 < read_out_radius(1000, k) / averaged_radius(1000, k) < math.sqrt(2)


def test_the_averaged_direction_is_the_gradient_of_the_averaged_network() -> None:
    mu, signs = centres_and_signs(20, 4)
    direction = averaged_direction(mu, signs)
    assert direction.norm().item() == pytest.approx(1.0)
    net = grouped_network(mu, signs, group=2, threshold=0.0, dtype=torch.float64)
    x = (mu.mean(0)).requires_grad_(True)  # where both neurons are on
    (gradient,) = torch.autograd.grad(net(x[None]).sum(), x)
    torch.testing.assert_close(gradient / gradient.norm(), direction)


def test_what_cannot_be_is_refused() -> None:
    mu, signs = centres_and_signs(20, 4)
    with pytest.raises(InputError, match="at least one cluster"):
        grouped_network(mu, signs, group=0)
    with pytest.raises(InputError, match="threshold"):
        grouped_network(mu, signs, threshold=1.0)
