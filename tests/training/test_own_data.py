"""Networks with a data set each, trained as one batch: the same as each alone on its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training import cases
from tests.training.cases import trained, weights
from undertow.core.errors import InputError
from undertow.training import Recipe, Trainer
from undertow.training.batches import Batches

SETTINGS: dict[str, dict[str, Any]] = {
    "whole batches": {"optimizer": "gd"},
    "batches in one order": {"optimizer": "sgd", "batch_size": 8, "shuffle": False},
    "batches in orders of their own": {"optimizer": {"name": "heavy-ball"}, "batch_size": 8},
    "noisy labels": {"optimizer": "sgd", "batch_size": 8, "loss": "square", "label_noise": 0.3},
    "logs of losses": {"optimizer": {"name": "sign-descent"}, "objective": "log-loss", "log_below": 0.0},
    "units of the loss": {"optimizer": {"name": "adam", "epsilon": 0.0}, "objective": "framed-loss"},
    "a worst loss nearby": {"optimizer": {"name": "sam", "radius": 0.1}},
    "until a loss": {"optimizer": "gd", "learning_rate": 0.5, "stop_below": -0.2},
    "a penalty that remembers": {
        "optimizer": "sgd",
        "batch_size": 8,
        "penalty": {"name": "energy", "weight": 0.1},
    },
    "epochs taken back": {"optimizer": "gd", "rate": {"name": "loss-based"}, "learning_rate": 0.2},
}


def problem(seed: int) -> tuple[Tensor, Tensor]:
    draw = cases.generator(50 + seed)
    return torch.randn(21, 2, 4, 4, generator=draw), torch.randint(0, cases.CLASSES, (21,), generator=draw)


def recipes(**changes: Any) -> list[Recipe]:
    given = {"learning_rate": 0.02, "epochs": 7, "loss": "cross-entropy", "dtype": "float64", **changes}
    return [Recipe(seed=seed, **given) for seed in range(3)]


@pytest.mark.parametrize("architecture", ["dense-relu", "convolutional"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_each_is_trained_as_it_would_be_alone(architecture: str, setting: str) -> None:
    networks = [cases.ARCHITECTURES[architecture](seed) for seed in range(3)]
    problems, how = [problem(seed) for seed in range(3)], recipes(**SETTINGS[setting])
    together = trained(Trainer(networks, [x for x, _ in problems], [y for _, y in problems], how))
    for index, (network, (x, y), each) in enumerate(zip(networks, problems, how, strict=True)):
        alone = trained(Trainer([network], x, y, [each]))
        for name, weight in weights(alone.network(0)).items():
            torch.testing.assert_close(weights(together.network(index))[name], weight, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(together.log_loss()[index], alone.log_loss()[0])
        assert together.steps()[index] == alone.steps()[0]
        assert torch.equal(together.data(index)[0], alone.data(0)[0])


def test_a_batch_picked_on_the_device_is_that_of_the_host() -> None:
    x, y = (torch.stack(each) for each in zip(*map(problem, range(3)), strict=True))
    for seeds in (None, [4, 4, 4], [4, 5, 6]):
        batches = Batches(x, y, size=8, seeds=seeds, own=True)
        for step in (0, 1, 3):
            batches.turn_to(step)
            for picked, asked in zip(batches.picked(torch.tensor(step)), batches.at(step), strict=True):
                assert torch.equal(picked, asked)
                assert picked.shape[:2] == (3, 8)


def test_data_sets_that_do_not_fit_are_a_sentence() -> None:
    networks, how = [cases.ARCHITECTURES["dense-relu"](seed) for seed in range(3)], recipes(optimizer="gd")
    x, y = map(list, zip(*map(problem, range(3)), strict=True))
    with pytest.raises(InputError, match="3 networks and 2 data sets"):
        Trainer(networks, x[:2], y[:2], how)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"one shape, and there are \(21, 2, 4, 4\) and \(20, 2, 4, 4\)"):
        Trainer(networks, [*x[:2], x[2][:20]], [*y[:2], y[2][:20]], how)  # type: ignore[list-item]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("setting", SETTINGS)
def test_data_of_their_own_are_the_same_on_cuda(setting: str) -> None:
    networks, how = (
        [cases.ARCHITECTURES["dense-relu"](seed) for seed in range(3)],
        recipes(**SETTINGS[setting]),
    )
    x, y = map(list, zip(*map(problem, range(3)), strict=True))
    here, there = (trained(Trainer(networks, x, y, how, device=place)) for place in ("cpu", "cuda"))  # type: ignore[arg-type]
    for index in range(3):
        for name, weight in weights(here.network(index)).items():
            found = weights(there.network(index))[name].cpu()
            torch.testing.assert_close(found, weight, rtol=1e-7, atol=1e-9)
