"""Margins and KKT residuals of networks as others write them: weights of the root or shared, tokens, attention."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from undertow.core.called_with import called_with
from undertow.core.errors import InputError
from undertow.measures.homogeneity import homogeneity
from undertow.measures.kkt import kkt
from undertow.measures.margins import margins


class OfTheRoot(nn.Module):
    """Two layers whose weights no layer holds."""

    def __init__(self, net: nn.Sequential) -> None:
        super().__init__()
        self.W, self.a = (nn.Parameter(weight.detach().clone()) for weight in net.parameters())

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x @ self.W.T) @ self.a.T


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(11, 6), nn.Linear(6, 3, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(torch.relu(self.table(tokens)).sum(1))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.layer(x).mean(1))


def two_layers(*, inputs: int = 6, outputs: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 8, bias=False), nn.ReLU(), nn.Linear(8, outputs, bias=False))


def named_twice() -> nn.Sequential:
    shared = nn.Linear(6, 6, bias=False)
    return nn.Sequential(shared, nn.LeakyReLU(0.3), shared, nn.LeakyReLU(0.3), nn.Linear(6, 1, bias=False))


def same_weights() -> nn.Sequential:
    """Two layers that share one parameter."""
    net = nn.Sequential(
        nn.Linear(6, 6, bias=False),
        nn.LeakyReLU(0.3),
        nn.Linear(6, 6, bias=False),
        nn.LeakyReLU(0.3),
        nn.Linear(6, 1, bias=False),
    )
    net[2].weight = net[0].weight
    return net


def classified(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """The points, labelled as the network has them: feasible."""
    scores = net(x).detach()
    return x, (scores.reshape(-1) > 0).long() if scores.reshape(len(x), -1).shape[1] == 1 else scores.argmax(
        1
    )


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("limit", [4, 5000])
def test_parameters_of_the_root_have_the_multipliers_of_the_same_network_in_layers(
    outputs: int, limit: int
) -> None:
    net = two_layers(outputs=outputs).double()
    x, y = classified(net, torch.randn(30, 6, dtype=torch.float64))
    layers, root = kkt(net, x, y, limit=limit), kkt(OfTheRoot(net), x, y, limit=limit)
    assert root.residual == pytest.approx(layers.residual, rel=1e-6)
    assert root.slackness == pytest.approx(layers.slackness, rel=1e-4)
    assert root.residual < 1 - 1e-3


@pytest.mark.parametrize("build", [named_twice, same_weights])
def test_shared_weights_have_the_residual_of_all_gradients_one_by_one(
    build: Callable[[], nn.Sequential],
) -> None:
    net = build().double()
    x, y = classified(net, torch.randn(30, 6, dtype=torch.float64))
    before = [p.detach().clone() for p in net.parameters()]
    found, dense = kkt(net, x, y, kinks=0.0), kkt(net, x, y, method="dense")
    assert found.residual == pytest.approx(dense.residual, rel=1e-3)
    # The oracle: one gradient at a time, by autograd.
    weights = list(net.parameters())
    rows = []
    for point, label in zip(x, y, strict=True):
        slopes = torch.autograd.grad((2 * label - 1) * net(point[None]).sum(), weights)
        rows.append(torch.cat([slope.flatten() for slope in slopes]))
    theta = torch.cat([p.detach().flatten() for p in weights])
    raw = found.multipliers
    # Multipliers are of θ scaled so that the smallest margin is 1: back to those of θ/‖θ‖.
    scale = float(theta.norm()) * found.margin_gap ** ((found.order - 2) / found.order)
    left = theta / theta.norm() - (raw / scale) @ torch.stack(rows)
    assert float(left.norm()) == pytest.approx(found.residual, rel=1e-6)
    assert all(torch.equal(now, then) for now, then in zip(net.parameters(), before, strict=True))


def test_margins_leave_a_network_with_a_module_of_two_names_as_it_was() -> None:
    """In float64 and eval mode the network itself is looked at: nothing may stay in its place."""
    net = named_twice().double().eval()
    x, y = classified(net, torch.randn(30, 6, dtype=torch.float64))
    parameter = next(net.parameters())
    weight = parameter.detach().clone()
    found = margins(net, x, y)
    assert next(net.parameters()) is parameter
    assert torch.equal(parameter, weight)
    assert found.order == 3.0


def test_called_with_sets_every_place_of_a_parameter() -> None:
    net = same_weights()
    x = torch.randn(5, 6)
    doubled = called_with(net, {name: 2 * p.detach() for name, p in net.named_parameters()}, x)
    assert torch.allclose(doubled, 8 * net(x))


def test_token_ids_and_fused_attention_are_measured() -> None:
    tokens = Tokens()
    x, y = classified(tokens, torch.randint(0, 11, (20, 2)))
    assert margins(tokens, x, y).order == 2.0
    assert kkt(tokens, x, y).residual == pytest.approx(kkt(tokens, x, y, method="dense").residual, abs=0.05)
    attention = Attention().eval()
    x, y = classified(attention, torch.randn(10, 5, 8))
    fast = torch.backends.mha.get_fastpath_enabled()
    assert 0 < kkt(attention, x, y).residual <= 1
    assert torch.backends.mha.get_fastpath_enabled() == fast


def test_points_in_another_precision_are_taken_and_none_is_refused() -> None:
    net = two_layers()
    x, y = classified(net, torch.randn(12, 6))
    assert kkt(net, x.double(), y).residual == kkt(net, x, y).residual
    for measure in (margins, kkt):
        with pytest.raises(InputError, match=r"no points.*one point or more"):
            measure(net, x[:0], y[:0])  # type: ignore[operator]


@pytest.mark.parametrize("outputs", [1, 10])
def test_the_square_loss_has_no_margins(outputs: int) -> None:
    net = two_layers(outputs=outputs)
    x, y = classified(net, torch.randn(12, 6))
    for measure in (margins, kkt):
        with pytest.raises(InputError, match=r"'square' has no margins.*cross-entropy"):
            measure(net, x, y, loss="square")  # type: ignore[operator]


def deep(layers: int, unit: float) -> nn.Sequential:
    sizes = [6] * layers + [1]
    net = nn.Sequential(*(nn.Linear(a, b, bias=False) for a, b in itertools.pairwise(sizes))).double()
    for weight in net.parameters():
        weight.data = unit * (torch.eye(*weight.shape) + 0.05 * torch.randn(weight.shape)).double()
    return net


@pytest.mark.parametrize("layers", [2, 14, 21, 30])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_deep_networks_in_any_units_have_the_order_of_their_layers(layers: int, unit: float) -> None:
    net = deep(layers, unit)
    x = torch.randn(20, 6)
    found = homogeneity(net, x)
    assert (found.order, found.homogeneous) == (float(layers), True)
    x, y = classified(net, x.double())
    margin = margins(net, x, y)
    unscaled = margins(deep_of(net, 1 / unit), x, y)
    assert margin.normalised == pytest.approx(unscaled.normalised, rel=1e-6)
    assert margin.by_layers == pytest.approx(unscaled.by_layers, rel=1e-6)


def deep_of(net: nn.Sequential, factor: float) -> nn.Sequential:
    """The same network in other units."""
    other = deep(len(net), 1.0)
    for weight, given in zip(other.parameters(), net.parameters(), strict=True):
        weight.data = given.detach() * factor
    return other


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_a_bias_makes_no_network_homogeneous_in_any_units(unit: float) -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).double()
    x = torch.randn(20, 4).double()
    with torch.no_grad():
        for name, weight in net.named_parameters():
            weight.mul_(unit**2 if name == "2.bias" else unit)  # as large beside the rest as in other units
    assert not homogeneity(net, x).homogeneous


def test_the_product_of_norms_has_as_many_factors_as_the_order_or_is_left_out() -> None:
    x = torch.randn(30, 6, dtype=torch.float64)
    layers = two_layers().double()
    _, y = classified(layers, x)
    root = margins(OfTheRoot(layers), x, y)
    assert root.by_layers == pytest.approx(margins(layers, x, y).by_layers, rel=1e-12)

    tied = named_twice().double()
    _, y = classified(tied, x)
    found = margins(tied, x, y)
    first, last = (float(weight.detach().norm()) for weight in tied.parameters())
    product = first**2 * last
    assert found.by_layers == pytest.approx(found.smallest / product, rel=1e-12)

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside, self.out = nn.Linear(6, 6, bias=False), nn.Linear(6, 1, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(torch.relu(self.inside(torch.relu(self.inside(x)))))

    twice = Twice().double()
    _, y = classified(twice, x)
    left_out = margins(twice, x, y)
    assert left_out.order == 3.0
    assert math.isnan(left_out.by_layers)
    assert "2 modules with weights are not the 3 factors" in left_out.sentence
    assert not math.isnan(left_out.normalised)


def test_a_batch_norm_that_has_seen_no_data_is_told() -> None:
    net = nn.Sequential(
        nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3, bias=False)
    )
    x = torch.randn(20, 6)
    net.eval()
    assert "BatchNorm has seen no data (1" in margins(net, *classified(net, x)).sentence
    net.train()(x)
    assert "BatchNorm: 1" in margins(net.eval(), *classified(net, x)).sentence
