"""KKT residuals where layers alone do not tell the gradients: hooks, weights used elsewhere, layouts, recurrence."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import Tensor, nn
from torch.nn import functional

from undertow.core.errors import ModelError
from undertow.measures.kkt import kkt


def dense_residual(net: nn.Module, x: Tensor, y: Tensor) -> float:
    """Every gradient one by one by autograd, and the multipliers by SciPy."""
    weights = list(net.parameters())
    scores: Tensor = net(x)
    rows, gaps = [], []
    for point, label in zip(scores, y.tolist(), strict=True):
        for rival in set(range(len(point))) - {label}:
            gap = point[label] - point[rival]
            slopes = torch.autograd.grad(gap, weights, retain_graph=True, materialize_grads=True)
            rows.append(torch.cat([slope.flatten() for slope in slopes]).numpy())
            gaps.append(gap.item())
    theta = torch.cat([weight.detach().flatten() for weight in weights]).numpy()
    size = np.linalg.norm(theta)
    columns, excess = np.stack(rows).T, (np.array(gaps) - min(gaps)) / size
    found = scipy.optimize.nnls(np.vstack([columns, excess]), np.append(theta / size, 0.0), maxiter=10_000)[0]
    return float(np.linalg.norm(theta / size - columns @ found))


def layers() -> Any:
    return nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.3), nn.Linear(8, 3, bias=False))


def changed_output() -> nn.Module:
    net = layers()
    net[0].register_forward_hook(lambda _module, _given, output: torch.sin(3 * output))
    return net


def changed_input() -> nn.Module:
    net = layers()
    net[0].register_forward_pre_hook(lambda _module, given: (2 * given[0],))
    return net


def own_forward() -> nn.Module:
    net = layers()
    layer = net[0]
    layer.forward = types.MethodType(lambda own, x: functional.linear(x, 2 * own.weight, own.bias), layer)
    return net


class WeightElsewhere(nn.Module):
    """Uses a layer's weight a second time, transposed, without calling the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.out = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.linear(torch.tanh(self.inside(x)), self.inside.weight.T)
        return self.out(torch.tanh(hidden))


class WeightBeside(WeightElsewhere):
    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.inside(x))) * (1 + self.out.weight.square().sum())


class Pieces(nn.Module):
    """Two tokens of three numbers, arranged in some way before a layer sees them, and the tokens summed after."""

    def __init__(self, arrange: Callable[[Tensor], Tensor], total: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.out, self.arrange, self.total = nn.Linear(3, 4), nn.Linear(4, 3), arrange, total

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.total(torch.tanh(self.layer(self.arrange(x.reshape(-1, 2, 3))))))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.GRU(3, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.cell(x.reshape(-1, 2, 3))[0][:, -1])


class Shared(nn.Module):
    """What all points share passes through a layer of its own, as one row."""

    def __init__(self) -> None:
        super().__init__()
        self.place, self.inside, self.out = nn.Linear(2, 6), nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.inside(x + self.place(x.new_ones(1, 2)))))


class Unused(nn.Module):
    """A layer, and a number of the network's own, that no score depends on: they are a part of θ all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.idle = layers(), nn.Linear(2, 2)
        self.number = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


class OneByOne(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.out = nn.Conv2d(1, 4, 2), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.out(torch.tanh(self.convolution(p.reshape(1, 2, 3))).flatten()) for p in x])


class OneByOneInThree(nn.Module):
    """As many channels, and as many inputs of the last layer, as points are tried."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.out = nn.Conv2d(3, 3, (1, 2)), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        images = [torch.tanh(self.convolution(p.reshape(3, 1, 2))) for p in x]
        return torch.stack([self.out(image.flatten()) for image in images])


@pytest.mark.parametrize(
    "build",
    [
        layers,
        changed_output,
        changed_input,
        own_forward,
        WeightElsewhere,
        WeightBeside,
        pytest.param(lambda: Pieces(lambda x: x, lambda h: h.sum(1)), id="points, tokens"),
        pytest.param(lambda: Pieces(lambda x: x.transpose(0, 1), lambda h: h.sum(0)), id="tokens, points"),
        pytest.param(
            lambda: Pieces(lambda x: x.flatten(0, 1), lambda h: h.unflatten(0, (-1, 2)).sum(1)), id="flat"
        ),
        Recurrent,
        Shared,
        Unused,
        OneByOne,
        OneByOneInThree,
    ],
)
@pytest.mark.parametrize("count", [1, 2, 25])
def test_residuals_are_those_of_all_gradients_one_by_one(build: Callable[[], nn.Module], count: int) -> None:
    torch.manual_seed(0)
    net = build().double()
    x = torch.randn(count, 6, dtype=torch.float64)
    y = net(x).argmax(1)
    assert kkt(net, x, y, kinks=0.0).residual == pytest.approx(dense_residual(net, x, y), rel=1e-4)


def test_a_hook_may_change_some_points_only() -> None:
    torch.manual_seed(0)
    net = layers().double()
    x = torch.randn(25, 6, dtype=torch.float64)
    tried = [0, 12, 24]
    x[tried] *= 0.1
    limit = float(net[0](x[tried]).max().detach())
    net[0].register_forward_hook(lambda _module, _given, output: output.clamp(max=limit))
    y = net(x).argmax(1)
    assert kkt(net, x, y, kinks=0.0).residual == pytest.approx(dense_residual(net, x, y), rel=1e-4)


def test_parameters_that_no_score_depends_on_leave_all_of_themselves() -> None:
    torch.manual_seed(0)
    net = Unused().double()
    x = torch.randn(12, 6, dtype=torch.float64)
    y = net(x).argmax(1)
    wanted = dense_residual(net, x, y)
    assert kkt(net, x, y, limit=3).residual == pytest.approx(wanted, rel=1e-4)
    assert kkt(net, x, y, parameters=["idle"]).residual == 1.0
    assert kkt(net, x, y, parameters=["used"]).residual < kkt(net, x, y, method="dense").residual < 1
    with torch.no_grad():
        net.number.fill_(torch.nan)
    with pytest.raises(ModelError, match="number has entries that are not finite"):
        kkt(net, x, y)


def test_slopes_at_kinks_are_free_beside_parameters_that_no_layer_has() -> None:
    class OfTheRoot(nn.Module):
        def __init__(self, net: nn.Module) -> None:
            super().__init__()
            self.inside, self.bias, self.out = (nn.Parameter(w.detach().clone()) for w in net.parameters())
            self.rectify = nn.LeakyReLU(0.3)

        def forward(self, x: Tensor) -> Tensor:
            return self.rectify(x @ self.inside.T + self.bias) @ self.out.T

    torch.manual_seed(0)
    net = layers().double()
    x = torch.randn(12, 6, dtype=torch.float64)
    with torch.no_grad():
        for point, unit in ((0, 0), (1, 3), (1, 5)):  # put these on the kinks of these units
            row = net[0].weight[unit]
            x[point] -= (row @ x[point] + net[0].bias[unit]) / row.square().sum() * row
        row, other = net[0].weight[3], net[0].weight[5]
        both = torch.stack([row, other])
        x[1] -= torch.linalg.pinv(both) @ (both @ x[1] + net[0].bias[[3, 5]])
    y = net(x).argmax(1)
    in_layers, of_root = kkt(net, x, y), kkt(OfTheRoot(net), x, y)
    assert in_layers.kinks == of_root.kinks == 2
    assert in_layers.residual < kkt(net, x, y, kinks=0.0).residual - 1e-4
    assert of_root.residual == pytest.approx(in_layers.residual, rel=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: Pieces(lambda x: x.transpose(0, 1), lambda h: h.sum(0)), id="tokens, points"),
        pytest.param(
            lambda: Pieces(lambda x: x.flatten(0, 1), lambda h: h.unflatten(0, (-1, 2)).sum(1)), id="flat"
        ),
    ],
)
@pytest.mark.parametrize("count", [2, 5])
def test_slopes_at_kinks_are_as_autograd_has_them_where_rows_are_no_points(
    build: Callable[[], nn.Module], count: int
) -> None:
    class Rectified(nn.Module):
        def __init__(self, net: nn.Module) -> None:
            super().__init__()
            self.net, self.rectify = net, nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            layer, net = self.net.get_submodule("layer"), self.net
            hidden = self.rectify(layer(net.arrange(x.reshape(-1, 2, 3))))  # type: ignore[operator]
            return net.get_submodule("out")(net.total(hidden))  # type: ignore[operator,no-any-return]

    torch.manual_seed(0)
    net = Rectified(build()).double()
    layer = net.net.get_submodule("layer")
    assert isinstance(layer, nn.Linear)
    x = torch.randn(count, 6, dtype=torch.float64)
    with torch.no_grad():  # put a token of the first point on a kink
        row = layer.weight[0]
        x[0, :3] -= (row @ x[0, :3] + layer.bias[0]) / row.square().sum() * row
    y = net(x).argmax(1)
    found = kkt(net, x, y)
    assert found.kinks == 0
    assert found.residual == pytest.approx(dense_residual(net, x, y), rel=1e-4)
