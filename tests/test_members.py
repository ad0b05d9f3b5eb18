"""Networks applied over their stacked weights give what each gives alone, with and without convolutions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import stack_module_state

from undertow.members import over_members
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
