"""Small networks and data shared by the tests of this package."""

from __future__ import annotations

from functools import cache

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn


class Sine(nn.Module):
    """Which has no known linear bounds."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x)


def mlp(seed: int, *, inputs: int = 4, width: int = 8, outputs: int = 3, slope: float = 0.0) -> nn.Sequential:
    """A random two-layer network in float64, with biases."""
    generator = torch.Generator().manual_seed(seed)
    net = nn.Sequential(
        nn.Linear(inputs, width), nn.LeakyReLU(slope) if slope else nn.ReLU(), nn.Linear(width, outputs)
    ).double()
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_(
                torch.randn(weight.shape, generator=generator, dtype=torch.float64) / weight.shape[-1] ** 0.5
            )
    return net.requires_grad_(False)


def points(seed: int, count: int, inputs: int = 4) -> Tensor:
    return (
        2 * torch.rand(count, inputs, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 1
    )


def decisions(net: nn.Module, x: Tensor) -> Tensor:
    """What the network itself says, as labels."""
    out = net(x)
    return (out[:, 0] > 0).long() if out.shape[1] == 1 else out.argmax(1)


@cache
def digits() -> tuple[nn.Sequential, Tensor, Tensor]:
    """A 10-class MLP trained on scikit-learn's digits in [0, 1], and 400 test points."""
    bunch = load_digits()
    x, y = torch.tensor(bunch.data / 16, dtype=torch.float32), torch.tensor(bunch.target)
    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) / weight.shape[-1] ** 0.5)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(150):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x[:1200]), y[:1200]).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return net.requires_grad_(False), x[1200:1600], y[1200:1600]


def parity(net: nn.Sequential) -> tuple[nn.Sequential, nn.Sequential]:
    """A one-logit network and its two-class twin (−f/2, f/2), cut from a 10-class one."""
    head = net[2]
    assert isinstance(head, nn.Linear)
    row, shift = (
        head.weight[1::2].sum(0) - head.weight[::2].sum(0),
        head.bias[1::2].sum() - head.bias[::2].sum(),
    )
    one, two = nn.Linear(48, 1), nn.Linear(48, 2)
    with torch.no_grad():
        one.weight.copy_(row[None])
        one.bias.copy_(shift[None])
        two.weight.copy_(torch.stack([-row / 2, row / 2]))
        two.bias.copy_(torch.stack([-shift / 2, shift / 2]))
    return (
        nn.Sequential(net[0], net[1], one).requires_grad_(False),
        nn.Sequential(net[0], net[1], two).requires_grad_(False),
    )
