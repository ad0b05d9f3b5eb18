"""The closed-form KKT network satisfies every condition, and its universal perturbation has the predicted length."""

from __future__ import annotations

import pytest
import torch

from undertow.core.errors import InputError
from undertow.data.clusters import cluster_centres
from undertow.theory.frei import kkt_network, universal_direction, universal_radius


@pytest.mark.parametrize(("k", "positive"), [(4, 2), (10, 5), (5, 3), (6, 1)])
@pytest.mark.parametrize("copies", [1, 5])
def test_every_condition_holds_exactly(k: int, positive: int, copies: int) -> None:
    centres = cluster_centres(k=k, d=200, seed=3)
    signs = torch.where(torch.arange(k) < positive, 1, -1)
    net = kkt_network(centres, signs, copies=copies, head=0.3)
    # Feasible with every margin tight, so that complementary slackness is free.
    assert torch.allclose(net(centres) * signs, torch.ones(k).double(), atol=1e-10)
    assert bool((net.multipliers > 0).all())
    # Stationary: w_r = v_r Σ λ_i y_i g_ir x_i and b_r = v_r Σ λ_i y_i g_ir.
    pulls = net.head[:, None] * (net.multipliers * signs) * net.subgradients
    assert torch.allclose(pulls @ centres, net.weight, atol=1e-12)
    assert torch.allclose(pulls.sum(1), net.bias, atol=1e-12)
    # The g are subgradients: 1 where the neuron is active, in [0, 1] at the kink, which the other class sits on.
    inputs = centres @ net.weight.T + net.bias
    for neuron, sign in enumerate((1, -1)):
        assert bool((inputs[signs == sign, neuron] > 0).all())
        assert torch.allclose(inputs[signs == -sign, neuron], torch.zeros(1).double(), atol=1e-10)
    assert bool(((net.subgradients >= 0) & (net.subgradients <= 1)).all())


@pytest.mark.parametrize("k", [4, 10])
def test_the_universal_move_flips_at_the_predicted_radius(k: int) -> None:
    d = 4000
    centres = cluster_centres(k=k, d=d, seed=1)
    signs = torch.where(torch.arange(k) < k // 2, 1, -1)
    net, radius = kkt_network(centres, signs), universal_radius(k, d=d)
    back = signs[:, None] * universal_direction(centres, signs)
    assert bool((net(centres - 0.97 * radius * back) * signs > 0).all())
    assert bool((net(centres - 1.03 * radius * back) * signs < 0).all())


def test_centres_that_are_not_orthogonal_are_refused() -> None:
    with pytest.raises(InputError, match="orthogonal"):
        kkt_network(torch.ones(2, 3), torch.tensor([1, -1]))
    with pytest.raises(InputError, match="one sign"):
        kkt_network(torch.eye(2), torch.tensor([1, 1]))
