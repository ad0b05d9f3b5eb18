"""Regression: real targets, one or several a sample, are trained on as they are."""

from __future__ import annotations

import pytest
import torch

from undertow.core.errors import InputError
from undertow.data.chebyshev import chebyshev
from undertow.data.dataset import Dataset
from undertow.data.linear_map import linear_map
from undertow.models import mlp
from undertow.training import Recipe, Trainer
from undertow.training.directions import Nesterov


def _trained(
    data: Dataset, outputs: int, *, batch_size: int | None, optimizer: object = "sgd"
) -> list[torch.nn.Module]:
    nets = [
        mlp(
            inputs=data.x.shape[1],
            widths=[6],
            outputs=outputs,
            activation="tanh",
            dtype=torch.float64,
            generator=torch.Generator().manual_seed(seed),
        )
        for seed in range(3)
    ]
    recipes = [
        Recipe(
            optimizer=optimizer,
            learning_rate=0.05,
            epochs=4,
            loss="square",
            batch_size=batch_size,
            dtype="float64",
            seed=seed,
        )
        for seed in range(3)
    ]
    trainer = Trainer(nets, data.x, data.labels, recipes)
    while not trainer.done:
        trainer.run_epoch()
    return [trainer.network(index) for index in range(3)]


@pytest.mark.parametrize("batch_size", [None, 2])
def test_several_networks_learn_several_targets_as_each_would_alone(batch_size: int | None) -> None:
    """Targets (N, k) are not taken for each member's own labels (M, N), also where N = M and k = N."""
    data = linear_map(n=3, d=3)
    for seed, net in enumerate(_trained(data, 3, batch_size=batch_size)):
        alone = mlp(
            inputs=3,
            widths=[6],
            outputs=3,
            activation="tanh",
            dtype=torch.float64,
            generator=torch.Generator().manual_seed(seed),
        )
        recipe = Recipe(
            learning_rate=0.05,
            optimizer="sgd",
            epochs=4,
            loss="square",
            batch_size=batch_size,
            dtype="float64",
            seed=seed,
        )
        trainer = Trainer([alone], data.x, data.labels, [recipe])
        while not trainer.done:
            trainer.run_epoch()
        for ours, theirs in zip(net.parameters(), trainer.network(0).parameters(), strict=True):
            assert torch.allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def test_nesterov_is_that_of_torch() -> None:
    data = chebyshev(n=5, degree=3)
    (net, *_) = _trained(data, 1, batch_size=None, optimizer=Nesterov(momentum=0.9))
    ours = mlp(
        inputs=1,
        widths=[6],
        outputs=1,
        activation="tanh",
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(0),
    )
    sgd = torch.optim.SGD(ours.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    for _ in range(4):
        sgd.zero_grad()
        ((ours(data.x.double())[:, 0] - data.labels.double()).square() / 2).mean().backward()
        sgd.step()
    for one, other in zip(net.parameters(), ours.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-10)


def test_targets_follow_their_samples_and_count_in_the_checksum() -> None:
    data = chebyshev(n=4, degree=2)
    assert data.take([2, 0]).labels.tolist() == [data.labels[2].item(), data.labels[0].item()]
    assert data.checksum != chebyshev(n=4, degree=3).checksum
    assert Dataset.of(data.x, torch.zeros(4).long(), name="c").labels.dtype is torch.int64
    with pytest.raises(InputError, match="one or a row for each of the 4 samples"):
        Dataset.of_targets(data.x, torch.zeros(3), name="c")
