"""Networks with written gradients give what autograd gives, and are asked for them only where they are unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from undertow.models.diagonal import DiagonalNetwork
from undertow.models.matrix_product import MatrixProduct
from undertow.training.mapped import MappedNetworks
from undertow.training.stacking import stack_networks
from undertow.training.written import WrittenGradients

CPU: dict[str, Any] = {"dtype": torch.float64, "device": torch.device("cpu")}


def diagonal(generator: torch.Generator) -> nn.Module:
    net = DiagonalNetwork(5, 1.0, dtype=torch.float64)
    for parameter in net.parameters():
        parameter.data.normal_(generator=generator)
    return net


def points(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, 5, dtype=torch.float64, generator=generator)


def products(depth: int) -> Callable[[torch.Generator], nn.Module]:
    return lambda generator: MatrixProduct(4, depth, 0.5, dtype=torch.float64, generator=generator)


def entries(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randint(0, 4, (*shape, 2), generator=generator).double()  # some of them twice


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    ("build", "draw", "frozen"),
    [
        (diagonal, points, []),
        (diagonal, points, ["v"]),
        (products(1), entries, []),
        (products(2), entries, []),
        (products(4), entries, ["layers.1"]),
    ],
)
def test_as_autograd(
    build: Callable[[torch.Generator], nn.Module],
    draw: Callable[..., Tensor],
    frozen: list[str],
    own: bool,
) -> None:
    generator = torch.Generator().manual_seed(0)
    networks = [build(generator) for _ in range(3)]
    x = draw(generator, 3, 9) if own else draw(generator, 9)
    slopes = torch.randn(3, 9, 1, dtype=torch.float64, generator=generator)
    stacked = stack_networks(networks, frozen=frozen, **CPU)
    assert isinstance(stacked, WrittenGradients)
    found = []
    for ensemble in (stacked, MappedNetworks(networks, frozen=frozen, **CPU)):
        logits, kept = ensemble.forward(x, own=own)
        onto = {name: torch.ones_like(ensemble.weights[name]) for name in ensemble.trained}
        ensemble.backward(kept, slopes.clone(), onto=onto)
        found.append((logits, onto))
    torch.testing.assert_close(found[0], found[1])


def test_a_hook_is_not_passed_over() -> None:
    net = DiagonalNetwork(3, 1.0)
    net.register_forward_hook(lambda *_: None)
    assert isinstance(stack_networks([net], frozen=[], **CPU), MappedNetworks)
