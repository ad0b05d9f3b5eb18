"""Networks as members of one: told apart where they differ, and over stacked weights what each gives alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import stack_module_state

from undertow.core.members import first_unlike, over_members
from undertow.models import resnet

MEMBERS, SAMPLES = 3, 4


def _dense(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 5), nn.LayerNorm(5), nn.Linear(5, 2)).double()


def _convolutional(seed: int) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    net = resnet(image=(3, 4, 4), channels=(2, 3), outputs=2, dtype=torch.float64, generator=generator)
    net(torch.randn(8, 48, generator=generator, dtype=torch.float64))  # statistics of its own
    return net.eval()


class _Viewing(nn.Module):
    """As many write it: ``view`` takes a picture in the ordinary layout alone."""

    def __init__(self) -> None:
        super().__init__()
        self.pictures = nn.Conv2d(3, 2, 3, padding=1)
        self.output = nn.Linear(32, 2)

    def forward(self, x: Tensor) -> Tensor:
        pictures = torch.relu(self.pictures(x.view(-1, 3, 4, 4)))
        scores: Tensor = self.output(pictures.view(len(x), -1))
        return scores


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("make", [_Viewing, lambda: _convolutional(0)])
def test_a_gpu_takes_the_same_networks(make: Callable[[], nn.Module]) -> None:
    nets = [make().double() for _ in range(MEMBERS)]
    x = torch.randn(SAMPLES, 48, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    weights, buffers = stack_module_state([net.cuda() for net in nets])
    together = over_members(nets[0])(weights, buffers, x.cuda(), False)
    for found, net in zip(together, nets, strict=True):
        torch.testing.assert_close(found.cpu(), net.cpu()(x))


@pytest.mark.parametrize("make", [_dense, _convolutional])
@pytest.mark.parametrize("own", [False, True], ids=["shared samples", "own samples"])
def test_outputs_and_gradients_are_those_of_each_member_alone(make: object, own: bool) -> None:
    assert callable(make)
    nets = [make(seed) for seed in range(MEMBERS)]
    shape = (MEMBERS, SAMPLES, 48) if own else (SAMPLES, 48)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    weights, buffers = stack_module_state(nets)
    together = over_members(nets[0])(weights, buffers, x, own)
    gradients = torch.autograd.grad(together.square().sum(), list(weights.values()))
    for member, net in enumerate(nets):
        alone: Tensor = net(x[member] if own else x)
        torch.testing.assert_close(together[member], alone)
        expected = torch.autograd.grad(alone.square().sum(), list(net.parameters()))
        for found, each in zip(gradients, expected, strict=True):
            torch.testing.assert_close(found[member], each)


class _Hidden(nn.Module):
    """Prints the same whatever its sizes: only parameters and buffers tell."""

    def __init__(self, weights: int, buffer: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(weights))
        self.register_buffer("scale", torch.zeros(buffer), persistent=False)


@pytest.mark.parametrize(
    "other",
    [nn.Sequential(nn.Linear(2, 2), nn.Tanh()), _Hidden(3, 1), _Hidden(2, 2)],
    ids=["another activation", "another parameter", "another buffer"],
)
def test_a_network_of_another_architecture_is_found(other: nn.Module) -> None:
    first: nn.Module = (
        _Hidden(2, 1) if isinstance(other, _Hidden) else nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    )
    assert first_unlike([first, first, other, first]) == 2
    assert first_unlike([first, first]) is None
