"""Min & Vidal's distance: against dense points on the sphere, and the bracket that it promises."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor, nn

from undertow.core.errors import InputError, ModelError
from undertow.models import prelu_network
from undertow.theory.prelu_targets import Target, _proved, averaged_target, decoupled_target, distance_to

SIGNS = torch.tensor([1, 1, -1])


def network(*, power: float, width: int = 6, seed: int = 0) -> Any:
    return prelu_network(
        inputs=3,
        width=width,
        power=power,
        scale=1.0,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(seed),
    )


def dense(count: int = 5000) -> Tensor:
    points = torch.randn(count, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return nn.functional.normalize(points, dim=1)


def brute_force(net: nn.Module, target: Target) -> float:
    """The same infimum over c on many points of the sphere: a lower bound that nearly is the distance."""
    x = dense()
    with torch.no_grad():
        f, F = net(x).flatten().numpy(), target(x).numpy()
    rows = [[*row] for row in zip(f, [-1.0] * len(f), strict=True)] + [[-v, -1.0] for v in f]
    solved = linprog([0.0, 1.0], rows, [*F, *(-F)], bounds=[(0, None), (0, None)])
    return float(solved.x[1])


@pytest.mark.parametrize("power", [1.0, 3.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_distance_is_that_of_dense_points(power: float, seed: int) -> None:
    net, centres = network(power=power, seed=seed), torch.eye(3, dtype=torch.float64)
    for target in (
        averaged_target(centres, SIGNS, power=power),
        decoupled_target(centres, SIGNS, power=power),
    ):
        found, oracle = distance_to(net, target, starts=32), brute_force(net, target)
        assert found.settled
        assert oracle <= found.lower * 1.01 + 1e-9
        assert found.lower == pytest.approx(oracle, rel=0.03)
        assert found.lower <= found.upper <= target.largest + 1e-9


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0, 3.0])
def test_largest_is_the_supremum(power: float) -> None:
    centres, x = torch.eye(3, dtype=torch.float64), dense()
    for target in (
        averaged_target(centres, SIGNS, power=power),
        decoupled_target(centres, SIGNS, power=power),
    ):
        assert float(target(x).abs().max()) == pytest.approx(target.largest, rel=0.02)
        assert float(target(x).abs().max()) <= target.largest + 1e-9
        assert torch.allclose(target(centres), SIGNS.double())


def test_a_network_that_is_the_target_is_at_distance_zero_whatever_its_scale() -> None:
    centres = torch.eye(3, dtype=torch.float64)
    net = network(power=3.0, width=3)
    with torch.no_grad():
        net.hidden.weight.copy_(5 * centres)
        net.output.weight.copy_(7 * SIGNS[None].double())
    found = distance_to(net, decoupled_target(centres, SIGNS, power=3.0))
    assert found.lower == pytest.approx(0.0, abs=1e-9)
    assert found.upper == pytest.approx(0.0, abs=1e-7)
    assert found.scale == pytest.approx(1 / 35)
    # One feature has half the weight of the others: the best multiple, 4/3, misses each of them by a third.
    with torch.no_grad():
        net.output.weight[0, 0] *= 0.5
    assert distance_to(net, decoupled_target(centres, SIGNS, power=3.0)).lower == pytest.approx(
        1 / 3, rel=1e-3
    )


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
def test_what_is_proved_is_no_less_than_what_a_point_shows(power: float) -> None:
    """The bound itself, before the search's own result could hide that it is too small."""
    centres = torch.eye(3, dtype=torch.float64)
    for seed in range(5):
        net = network(power=power, width=4, seed=seed)
        with (
            torch.no_grad()
        ):  # near the target and off it, so that the bound is below that of the zero function
            near = centres[[0, 1, 2, 2]] + 0.05 * net.hidden.weight
            net.hidden.weight.copy_(near / near.norm(dim=1, keepdim=True))
            net.output.weight.copy_(torch.tensor([[1.0, 0.9, -0.5, -0.6]]))
        target = decoupled_target(centres, SIGNS, power=power)
        proved = _proved(net.hidden.weight.detach(), net.output.weight.detach()[0], target)
        assert brute_force(net, target) <= proved < target.largest


@pytest.mark.parametrize("power", [1.0, 3.0])
def test_a_stray_neuron_costs_what_it_turned_by(power: float) -> None:
    """‖ŵ − u‖ = 0.1 for one of three neurons of mass 1: at c = 1 the bound is p · 0.1; of the wrong sign it is all."""
    centres, net = torch.eye(3, dtype=torch.float64), network(power=power, width=3)
    half = math.asin(0.05)
    turned = centres.clone()
    turned[0] = torch.tensor([math.cos(2 * half), 0.0, math.sin(2 * half)])
    with torch.no_grad():
        net.hidden.weight.copy_(turned)
        net.output.weight.copy_(SIGNS[None].double())
    target = decoupled_target(centres, SIGNS, power=power)
    assert distance_to(net, target).upper == pytest.approx(0.1 * power, rel=0.05)
    with torch.no_grad():
        net.output.weight[0, 0] = -1.0
    assert distance_to(net, target).upper == pytest.approx(target.largest)


def test_what_does_not_fit_is_told() -> None:
    centres = torch.eye(3)
    with pytest.raises(InputError, match="orthonormal"):
        averaged_target(2 * centres, SIGNS)
    with pytest.raises(InputError, match="power 3"):
        distance_to(network(power=1.0), decoupled_target(centres, SIGNS, power=3.0))
    with pytest.raises(ModelError, match="a linear layer, a pReLU and a linear layer"):
        distance_to(nn.Linear(3, 1), averaged_target(centres, SIGNS))
