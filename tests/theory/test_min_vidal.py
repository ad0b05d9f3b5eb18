"""Min & Vidal's distance: against dense points on the sphere, and the bracket that it promises."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor, nn

from undertow.errors import InputError, ModelError
from undertow.models import prelu_network
from undertow.theory.min_vidal import Target, averaged_target, decoupled_target, distance_to

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


def test_what_does_not_fit_is_told() -> None:
    centres = torch.eye(3)
    with pytest.raises(InputError, match="orthonormal"):
        averaged_target(2 * centres, SIGNS)
    with pytest.raises(InputError, match="power 3"):
        distance_to(network(power=1.0), decoupled_target(centres, SIGNS, power=3.0))
    with pytest.raises(ModelError, match="hidden and output"):
        distance_to(nn.Linear(3, 1), averaged_target(centres, SIGNS))
