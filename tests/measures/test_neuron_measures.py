"""Alignment, the proof's conditions and exact radii, on networks whose answers are known."""

from __future__ import annotations

import math
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from undertow.core.errors import InputError, ModelError
from undertow.data.equal_cosines import equal_cosines
from undertow.measures import measure
from undertow.models import Gaussian, two_layer


def net_of(weight: torch.Tensor, head: torch.Tensor, slope: float = 0.0) -> nn.Sequential:
    hidden = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=torch.float64)
    output = nn.Linear(weight.shape[0], 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        hidden.weight.copy_(weight)
        output.weight.copy_(head)
    middle = nn.LeakyReLU(slope) if slope else nn.ReLU()
    return nn.Sequential(OrderedDict(hidden=hidden, activation=middle, output=output))


def readings(
    name: str, net: nn.Module, x: torch.Tensor, y: torch.Tensor, **options: float
) -> dict[str, float]:
    return {key: value for key, value, _ in measure(name, **options)(net, x, y)}


X, Y = 2 * torch.eye(4, dtype=torch.float64), torch.tensor([1, 1, 0, 0])
PLUS, MINUS = X[:2].sum(0), X[2:].sum(0)


def test_a_network_of_class_means_is_aligned() -> None:
    net = net_of(torch.stack([PLUS, 3 * PLUS, MINUS, MINUS]), torch.tensor([[0.5, 0.5, -0.5, -0.5]]))
    found = readings("neuron-alignment", net, X, Y)
    assert found["to_means"] == pytest.approx(1.0)
    assert found["directions"] == 2
    assert found["patterns"] == 2
    assert found["active"] == pytest.approx(0.5)
    assert found["own_active"] == pytest.approx(1.0)
    assert found["to_each_other"] == pytest.approx(2 / 6)
    assert found["rank_positive"] == pytest.approx(1.0)
    assert found["predicted"] == pytest.approx(2.0)


@pytest.mark.parametrize("units", [1e-9, 1.0, 1e9])
def test_alignment_knows_no_units(units: float) -> None:
    draw = torch.Generator().manual_seed(2)
    weight = torch.randn(6, 4, generator=draw, dtype=torch.float64)
    head = torch.tensor([[1.0, 1, 1, -1, -1, -1]]) / 6**0.5
    one = readings("neuron-alignment", net_of(weight, head), X, Y)
    other = readings("neuron-alignment", net_of(weight * units, head), X, Y)
    assert one == pytest.approx(other, rel=1e-9)


def test_only_two_layers_are_read() -> None:
    with pytest.raises(ModelError, match="two-layer"):
        readings("neuron-alignment", nn.Linear(4, 1, dtype=torch.float64), X, Y)
    with pytest.raises(InputError, match="labels"):
        list(measure("neuron-alignment")(net_of(torch.ones(2, 4), torch.ones(1, 2)), X, None))


def test_the_proofs_conditions_at_a_kkt_point() -> None:
    """w_j = a_j Σ λ_i y_i φ′ x_i with orthogonal points: λ_i = 1/(‖x‖² Σ_j a_j² over the class's half)."""
    a = 1 / math.sqrt(2)
    net = net_of(torch.stack([PLUS, MINUS]) * 30, torch.tensor([[a, -a]], dtype=torch.float64))
    found = readings("rank-proof", net, X, Y)
    assert found["spread"] == pytest.approx(0.0, abs=1e-9)
    assert found["excess"] == pytest.approx(0.0, abs=1e-12)
    assert found["residual"] == pytest.approx(0.0, abs=1e-6)
    assert found["least"] == pytest.approx((1 / (4 * 0.5)) * 2 * 4, rel=1e-6)
    margin = a * 30 * 4
    assert found["smallest"] == pytest.approx(margin)
    assert found["log10_loss"] == pytest.approx(-margin / math.log(10), rel=1e-9)


def test_the_inequality_against_autograd() -> None:
    draw = torch.Generator().manual_seed(3)
    net = net_of(torch.randn(6, 4, generator=draw, dtype=torch.float64), torch.ones(1, 6) / 6**0.5)
    weight = dict(net.named_parameters())["hidden.weight"]
    loss = nn.functional.softplus(-(2 * Y - 1) * net(X)[:, 0]).mean()
    (gradient,) = torch.autograd.grad(loss, [weight])
    singular = torch.linalg.svdvals(weight.detach())
    excess = float(singular.square().sum() - 2 * singular[0] ** 2)
    found = readings("rank-proof", net, X, Y)
    assert found["ratio"] == pytest.approx(excess / float(gradient.square().sum()), rel=1e-9)
    assert found["log10_loss"] == pytest.approx(float(loss.detach().log10()))


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_exact_radii_against_the_linear_case_and_a_search(slope: float) -> None:
    data = equal_cosines(n=4, d=6, positive=2, norm=1.0)
    net = two_layer(
        inputs=6, width=4, init=Gaussian(1.0), head="halves", generator=torch.Generator().manual_seed(1)
    ).double()
    if slope:
        net.activation = nn.LeakyReLU(slope)
    x = data.x.double()
    y = (net(x)[:, 0] > 0).long()  # as it decides
    found = readings("exact-radius", net, x, y)
    rng = np.random.default_rng(0)
    directions = torch.tensor(rng.normal(size=(20_000, 6)))
    directions /= directions.norm(dim=1, keepdim=True)
    for scale in (0.5, 0.9):
        moved = x[:, None] + scale * found["least"] * directions
        assert ((net(moved.reshape(-1, 6)).reshape(4, -1) > 0) == (y[:, None] > 0)).all()
    flat = net_of(torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]]), torch.tensor([[1.0, -1.0]]))
    linear = readings("exact-radius", flat, torch.tensor([[3.0, 0, 0, 0]]).double(), torch.tensor([1]))
    assert linear["mean"] == pytest.approx(1.0)  # f(x) = x₁: the radius is 3, the norm of the point too


def test_wide_networks_are_not_solved() -> None:
    with pytest.raises(InputError, match="narrower"):
        readings(
            "exact-radius",
            net_of(torch.ones(26, 4), torch.cat([torch.ones(1, 13), -torch.ones(1, 13)], 1)),
            X,
            Y,
        )
