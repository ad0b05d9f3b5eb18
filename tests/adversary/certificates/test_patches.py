"""What neurons of a convolution see as a small network: the same limits as from rows of the whole one."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from undertow.adversary.certificates.ball_coupling import BallCouplings
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.network_graph import NetworkGraph, read_graph
from undertow.adversary.certificates.sharpened_limits import sharpened
from undertow.adversary.classifier import Classifier


class Past(nn.Module):
    """A sum past a convolution, BatchNorm, and a second window on the same picture."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.third, self.norm = nn.Conv2d(3, 2, 3, stride=2), nn.BatchNorm2d(3)
        nn.init.uniform_(self.norm.running_mean, -0.5, 0.5)  # type: ignore[arg-type]
        nn.init.uniform_(self.norm.running_var, 0.5, 2.0)  # type: ignore[arg-type]
        self.head = nn.Linear(18, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.norm(self.first(x.reshape(-1, 1, 8, 8) * 2 - 0.5)))
        hidden = functional.silu(hidden - 0.7 * self.second(hidden))
        return self.head(torch.relu(self.third(hidden)).flatten(1))  # type: ignore[no-any-return]


def _stack(*parts: nn.Module, features: int) -> nn.Sequential:
    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), *parts, nn.Flatten(), nn.Linear(features, 3))


NETWORKS = {
    "strided": lambda: _stack(
        nn.Conv2d(1, 3, 4, 2, 1), nn.ReLU(), nn.Conv2d(3, 4, 3, 1, 1), nn.ReLU(), features=64
    ),
    # σ(0) is not 0: what padding puts beside a picture must not be the activation of zero
    "sigmoid": lambda: _stack(
        nn.Conv2d(1, 2, 3, padding=1), nn.Sigmoid(), nn.Conv2d(2, 3, 3, padding=1), nn.Tanh(), features=192
    ),
    "dilated": lambda: _stack(
        nn.Conv2d(1, 2, 3, padding=2, dilation=2), nn.ReLU(), nn.Conv2d(2, 3, 2, 2), nn.ReLU(), features=48
    ),
    "two convolutions on end": lambda: _stack(
        nn.Conv2d(1, 2, 3, padding=1),
        nn.Conv2d(2, 2, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(2, 2, 3, 3),
        nn.ReLU(),
        features=8,
    ),
    "pooled": lambda: _stack(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(4, 2, 2),
        nn.ReLU(),
        features=2,
    ),
    "past": Past,
}


def _read(name: str) -> tuple[NetworkGraph, Tensor]:
    torch.manual_seed(0)
    net = NETWORKS[name]().eval().double().requires_grad_(False)
    x = torch.rand(3, 64, dtype=torch.float64)
    return read_graph(Classifier(net), net, x), x


def _whole(bounds: LinearBounds) -> LinearBounds:
    """The same without patches."""
    bounds.patches = lambda _: None  # type: ignore[method-assign, assignment]
    return bounds


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("box", [None, (0.0, 1.0)])
def test_limits_are_those_of_whole_rows(name: str, norm: float, box: tuple[float, float] | None) -> None:
    graph, x = _read(name)
    bounds = LinearBounds(graph, norm, box)
    convolutions = [at for at in bounds.wanted if bounds.patches(at) is not None]
    assert len(convolutions) >= 2, "the test is about convolutions behind others"
    eps = torch.full((3,), 0.05 if norm == 2 else 0.2 if norm == 1 else 0.01, dtype=torch.float64)
    found, expected = bounds.ball(x, eps), _whole(LinearBounds(graph, norm, box)).ball(x, eps)
    for at in bounds.wanted:
        for side, other in zip(found.limits[at], expected.limits[at], strict=True):
            assert torch.allclose(side, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_limits_by_ascent_hold_and_are_no_wider(name: str) -> None:
    graph, x = _read(name)
    bounds = LinearBounds(graph, 2.0)
    eps = torch.full((3,), 1.0, dtype=torch.float64)
    plain = bounds.ball(x, eps)
    ball = sharpened(bounds, plain, BallCouplings(bounds))
    before = torch.cat([torch.cat(plain.limits[at], 1).flatten() for at in bounds.wanted])
    after = torch.cat([torch.cat(ball.limits[at], 1).flatten() for at in bounds.wanted])
    assert name not in ("strided", "pooled", "past") or bool((before != after).any())
    for at in bounds.wanted:
        assert bool((ball.limits[at][0] >= plain.limits[at][0]).all())
        assert bool((ball.limits[at][1] <= plain.limits[at][1]).all())
    for seed in range(40):
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        values = graph.values(x + noise / noise.norm(dim=1, keepdim=True))
        for at, (low, high) in ball.limits.items():
            slack = 1e-12 * (1 + values[at].abs())
            assert bool(((values[at] >= low - slack) & (values[at] <= high + slack)).all())


def test_a_patch_is_smaller_than_the_picture() -> None:
    torch.manual_seed(0)
    net = _stack(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Conv2d(3, 2, 3), nn.ReLU(), features=32).double()
    x = torch.rand(1, 64, dtype=torch.float64)
    bounds = LinearBounds(read_graph(Classifier(net), net, x), 2.0)
    patches = bounds.patches(max(at for at in bounds.wanted if bounds.patches(at) is not None))
    assert patches is not None
    assert [op.shape for op in patches[0].graph.operations] == [
        (1, 1, 5, 5),
        (1, 3, 3, 3),
        (1, 3, 3, 3),
        (1, 2, 1, 1),
    ]
