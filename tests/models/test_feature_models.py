"""pReLU, nearest-neighbour and residual networks: what each promises."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from undertow.core.errors import ConfigError
from undertow.models import NearestNeighbour, prelu_network, resnet
from undertow.training import Recipe, Trainer


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


@pytest.mark.parametrize("power", [1.0, 2.0, 3.5])
def test_prelu_is_its_formula_and_homogeneous(power: float) -> None:
    net: Any = prelu_network(
        inputs=5, width=7, power=power, scale=2.0, dtype=torch.float64, generator=generator()
    )
    x, w, v = gaussian(9, 5), net.hidden.weight.detach(), net.output.weight.detach()[0]
    by_hand = sum(v[j] * torch.relu(x @ w[j]) ** power / w[j].norm() ** (power - 1) for j in range(7))
    assert torch.allclose(net(x).flatten(), by_hand)
    assert torch.allclose(net(3 * x), 3**power * net(x))
    with torch.no_grad():
        before = net(x)
        net.hidden.weight *= 2
    assert torch.allclose(net(x), 2 * before)


@pytest.mark.parametrize("power", [1.0, 3.0])
def test_balanced_layers_stay_balanced_under_small_steps(power: float) -> None:
    net: Any = prelu_network(
        inputs=5, width=7, power=power, scale=1.0, dtype=torch.float64, generator=generator()
    )
    x, y = nn.functional.normalize(gaussian(30, 5, seed=1), dim=1), torch.arange(30) % 2 * 2 - 1
    recipe = Recipe(optimizer="gd", learning_rate=3e-3, epochs=300, loss="exponential", dtype="float64")
    trainer = Trainer([net], x, y, [recipe])
    trainer.advance(300)
    trained: Any = trainer.network(0)
    sizes, heads = trained.hidden.weight.norm(dim=1), trained.output.weight[0].abs()
    assert torch.allclose(sizes, heads, rtol=1e-3)
    assert float((trained.hidden.weight - net.hidden.weight).detach().norm()) > 0.05


def test_the_nearest_anchor_decides() -> None:
    anchors, labels = gaussian(40, 6), torch.arange(40) % 3
    net, x = NearestNeighbour(anchors, labels), gaussian(200, 6, seed=1)
    nearest = torch.cdist(x, anchors).argmin(1)
    assert torch.equal(net(x).argmax(1), labels[nearest])
    with pytest.raises(ConfigError, match="two classes"):
        NearestNeighbour(anchors, torch.zeros(40, dtype=torch.int64))


def test_residual_network_reads_rows_and_images_and_starts_as_its_shortcuts() -> None:
    net: Any = resnet(image=(3, 8, 8), channels=(4, 8), blocks=2, outputs=5, generator=generator()).eval()
    x = gaussian(6, 3, 8, 8).float()
    assert torch.equal(net(x.flatten(1)), net(x.flatten(1)))
    assert net(x.flatten(1)).shape == (6, 5)
    # Samples are independent in eval mode.
    assert torch.allclose(net(x.flatten(1))[:1], net(x[:1].flatten(1)), atol=1e-6)
    block = net.block1
    inputs = torch.relu(gaussian(2, 4, 8, 8).float())
    assert torch.allclose(block(inputs), inputs)
    wider = net.block3(inputs)
    assert wider.shape == (2, 8, 4, 4)
    assert torch.allclose(wider[:, :4], inputs[:, :, ::2, ::2])
    assert float(wider[:, 4:].detach().abs().max()) == 0
    again = resnet(image=(3, 8, 8), channels=(4, 8), blocks=2, outputs=5, generator=generator()).eval()
    assert torch.equal(again(x.flatten(1)), net(x.flatten(1)))


def test_residual_networks_train_as_a_batch_with_fixed_statistics() -> None:
    nets = [
        resnet(image=(1, 4, 4), channels=(4, 8), outputs=2, generator=generator(s)).eval() for s in (0, 1)
    ]
    x, y = gaussian(40, 16).float(), torch.arange(40) % 2
    recipes = [
        Recipe(optimizer="adam", learning_rate=0.01, epochs=60, loss="cross-entropy", seed=s) for s in (0, 1)
    ]
    trainer = Trainer(nets, x, y, recipes)
    before = trainer.log_loss().exp()
    trainer.advance(60)
    assert bool((trainer.log_loss().exp() < 0.8 * before).all())
    assert isinstance(trainer.network(0), nn.Sequential)


def test_sizes_that_make_no_network_are_told() -> None:
    with pytest.raises(ConfigError, match="fewer channels"):
        resnet(image=(1, 2, 2), channels=(4, 8, 16), outputs=2, generator=generator())
    with pytest.raises(ConfigError, match="power"):
        prelu_network(inputs=2, width=2, power=0.5, scale=1.0, generator=generator())


def test_batch_norm_in_eval_mode_is_pytorchs() -> None:
    """Written as a scale and a shift it gives the same numbers and gradients as the module it replaces."""
    net = resnet(image=(3, 8, 8), channels=(4, 8), outputs=5, dtype=torch.float64, generator=generator())
    x = torch.randn(16, 192, generator=generator(1), dtype=torch.float64)
    net(x), net(2 * x + 1)  # statistics that are not the initial ones
    net.eval()
    ours = net(x)
    gradients = torch.autograd.grad(ours.square().sum(), list(net.parameters()))
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.forward = lambda value, module=module: nn.BatchNorm2d.forward(module, value)  # type: ignore[method-assign,misc]
    theirs = net(x)
    torch.testing.assert_close(ours, theirs)
    for found, expected in zip(
        gradients, torch.autograd.grad(theirs.square().sum(), list(net.parameters())), strict=True
    ):
        torch.testing.assert_close(found, expected)
