"""Compiled convolutional networks as branches of a step: each is what it is alone, to the last bit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from undertow.models import cnn
from undertow.training import Recipe, Trainer
from undertow.training.branches import BranchedNetworks
from undertow.training.ensemble import Ensemble
from undertow.training.mapped import MappedNetworks
from undertow.training.stacking import stack_networks


def network(seed: int) -> nn.Module:
    draw = torch.Generator().manual_seed(seed)
    return cnn(image=(1, 6, 6), stages=[(3,), (4,)], kernels=(3, 3), dense=(8,), outputs=4, generator=draw)


@pytest.fixture(autouse=True)
def _without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("mapped", "step", "updates"):
        monkeypatch.setattr(f"undertow.training.{place}.compiled", lambda function: function)


def trainer(seeds: list[int], x: torch.Tensor, y: torch.Tensor, device: str = "cpu") -> Trainer:
    recipes = [
        Recipe(optimizer="sgd", batch_size=5, learning_rate=0.1, epochs=4, compiled=True, seed=seed)
        for seed in seeds
    ]
    return Trainer([network(seed) for seed in seeds], x, y, recipes, device=device)


ON_A_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_A_GPU)])
def test_a_network_among_others_is_the_one_alone(device: str) -> None:
    torch.manual_seed(0)
    x, y = torch.rand(30, 36), torch.randint(4, (30,))
    together = trainer([3, 1, 2], x, y, device)
    assert isinstance(together._whole, BranchedNetworks)
    together.advance(together.total_steps)
    for place, seed in enumerate([3, 1, 2]):
        alone = trainer([seed], x, y, device)
        alone.advance(alone.total_steps)
        pairs = zip(together.network(place).parameters(), alone.network(0).parameters(), strict=True)
        assert all(torch.equal(ours, theirs) for ours, theirs in pairs)
        before = dict(network(seed).named_parameters())
        assert not torch.equal(next(iter(before.values())), next(together.network(place).parameters()).cpu())


@pytest.mark.parametrize("own", [True, False])
def test_logits_and_gradients_are_those_of_autograd(own: bool) -> None:
    networks = [network(seed) for seed in range(3)]
    frozen = [next(iter(dict(networks[0].named_parameters())))]
    how: dict[str, Any] = {"frozen": frozen, "dtype": torch.float64, "device": torch.device("cpu")}
    ours, theirs = BranchedNetworks(networks, **how), MappedNetworks(networks, **how)
    x = torch.rand(3, 5, 36, dtype=torch.float64) if own else torch.rand(5, 36, dtype=torch.float64)
    found = []
    both: list[Ensemble] = [ours, theirs]
    for each in both:
        logits, kept = each.forward(x, own=own)
        onto = {name: torch.zeros_like(each.weights[name]) for name in each.trained}
        each.backward(kept, logits.sin(), onto=onto)
        found.append((logits, onto))
    torch.testing.assert_close(found[0][0], found[1][0])
    assert frozen[0] not in found[0][1]
    for name, gradient in found[0][1].items():
        assert gradient.abs().max() > 0
        torch.testing.assert_close(gradient, found[1][1][name])


def test_only_several_compiled_chains_of_convolutions_are_branches() -> None:
    how: dict[str, Any] = {"frozen": [], "dtype": torch.float32, "device": torch.device("cpu")}
    two = [network(0), network(1)]
    assert isinstance(stack_networks(two, faster=True, **how), BranchedNetworks)
    assert isinstance(stack_networks(two, **how), MappedNetworks)
    assert isinstance(stack_networks(two[:1], faster=True, **how), MappedNetworks)
    strided = [
        nn.Sequential(nn.Unflatten(1, (1, 6, 6)), nn.Conv2d(1, 2, 3, stride=2), nn.Flatten()) for _ in two
    ]
    assert isinstance(stack_networks(strided, faster=True, **how), MappedNetworks)


@pytest.mark.parametrize("samples", [8, 9, 15, 16, 17])
def test_logits_of_many_samples_are_those_of_a_few(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("undertow.training.mapped._ROUND", 4)
    monkeypatch.setattr("undertow.training.mapped._MOST_PATCHES", 8 * 6 * 6 * 9)  # eight samples' patches
    networks = [network(seed) for seed in range(3)]
    how: dict[str, Any] = {"frozen": [], "dtype": torch.float64, "device": torch.device("cpu")}
    x = torch.rand(samples, 36, dtype=torch.float64)
    passes: list[int] = []
    ours = BranchedNetworks(networks, **how)
    for one in ours._one:
        monkeypatch.setattr(one, "_glance", noted(one._glance, passes))
    expected = MappedNetworks(networks, **how).logits(x)
    torch.testing.assert_close(ours.logits(x), expected)
    torch.testing.assert_close(torch.stack([net(x) for net in map(doubled, networks)]), expected)
    assert passes == [8] * -(-samples // 8) * 3


def doubled(net: nn.Module) -> nn.Module:
    return copy.deepcopy(net).double()


def noted(function: Callable[..., torch.Tensor] | None, passes: list[int]) -> Callable[..., torch.Tensor]:
    def call(weights: Any, x: torch.Tensor) -> torch.Tensor:
        passes.append(x.shape[1])
        assert function is not None
        return function(weights, x)

    return call
