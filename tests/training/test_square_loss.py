"""Training on the square loss is PyTorch's own."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from undertow.training import Recipe, Trainer


@pytest.mark.parametrize("outputs", [1, 3])
def test_gradient_descent_on_the_square_loss(outputs: int) -> None:
    torch.manual_seed(0)
    networks = [nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, outputs)) for _ in range(2)]
    x, y = torch.randn(30, 5), torch.randint(0, 3, (30,))
    recipe = Recipe(optimizer="gd", learning_rate=0.1, epochs=20, loss="square")
    trainer = Trainer([copy.deepcopy(net) for net in networks], x, y, [recipe, recipe])
    while not trainer.done:
        trainer.run_epoch()
    targets = functional.one_hot(y, 3).float() if outputs == 3 else y[:, None].float()
    for index, net in enumerate(networks):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(20):
            optimizer.zero_grad()
            (functional.mse_loss(net(x), targets, reduction="sum") / 60).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        torch.testing.assert_close(trainer.network(index)(x), net(x), rtol=1e-4, atol=1e-5)
