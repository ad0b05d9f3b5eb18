"""Noise on labels: drawn anew in every epoch, from the seed alone, and never in what is recorded."""

from __future__ import annotations

import pytest
import torch

from undertow.core.errors import ConfigError
from undertow.models import mlp
from undertow.training.batches import Batches
from undertow.training.recipe import Recipe
from undertow.training.trainer import Trainer


def test_batches_have_labels_with_noise_of_that_size_anew_in_every_epoch() -> None:
    x, y = torch.arange(4000.0).view(-1, 1), torch.arange(4000.0)
    batches = Batches(x, y, size=2000, seeds=[3], label_noise=0.5)
    first, second = (batches.at(2 * epoch) for epoch in range(2))
    noise = [labels - rows[:, 0] for rows, labels in (first, second)]
    assert abs(float(noise[0].std()) - 0.5) < 0.03
    assert abs(float((noise[0] * noise[1]).mean())) < 0.03
    again = Batches(x, y, size=2000, seeds=[3], label_noise=0.5).at(0)
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not Batches(x, y, size=None, seeds=[3], label_noise=0.5).whole


@pytest.mark.parametrize("size", [4, None])
def test_a_network_meets_the_same_noise_alone_and_among_others(size: int | None) -> None:
    x, y = torch.randn(12, 3, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3
    nets = [mlp(inputs=3, widths=[4], outputs=3, generator=torch.Generator().manual_seed(s)) for s in (0, 1)]
    recipes = [
        Recipe(
            optimizer="sgd",
            learning_rate=0.1,
            batch_size=size,
            epochs=3,
            loss="square",
            label_noise=1.0,
            seed=s,
        )
        for s in (0, 1)
    ]
    both, alone = Trainer(nets, x, y, recipes), Trainer(nets[1:], x, y, recipes[1:])
    both.advance(100)
    alone.advance(100)
    for mine, theirs in zip(both.network(1).parameters(), alone.network(0).parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6)
    clean = torch.nn.functional.one_hot(y).float()
    loss = (both.network(1)(x) - clean).square().sum(1).mean() / 2
    assert torch.allclose(both.log_loss()[1].exp().float(), loss, atol=1e-5)


def test_noise_without_room_for_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="label_noise"):
        Recipe(optimizer="gd", learning_rate=0.1, epochs=1, loss="cross-entropy", label_noise=0.1)
