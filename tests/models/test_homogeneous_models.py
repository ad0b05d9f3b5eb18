"""The margin study's networks: shapes, biases, starts, and training through autograd."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.execution.sweeps import tiny_study
from undertow.core.errors import ConfigError
from undertow.execution.build import build_data, build_network, build_recipe
from undertow.measures.homogeneity import homogeneity
from undertow.models import cnn, vgg
from undertow.models.initialisation import draw_truncated_he
from undertow.training import Trainer


def small(**changes: Any) -> Any:
    options = {"image": (1, 8, 8), "stages": [(4,), (6,)], "kernels": (5, 3), "dense": (16,), "outputs": 3}
    return cnn(**{**options, **changes}, generator=torch.Generator().manual_seed(0))


def test_the_network_of_the_talk() -> None:
    net: Any = cnn(
        image=(1, 28, 28),
        stages=[(32,), (64,)],
        kernels=(5, 3),
        dense=(1024,),
        outputs=10,
        generator=torch.Generator().manual_seed(0),
    )
    shapes = {name: tuple(p.shape) for name, p in net.named_parameters()}
    assert shapes == {
        "conv1.weight": (32, 1, 5, 5),
        "conv1.bias": (32,),
        "conv2.weight": (64, 32, 3, 3),
        "dense1.weight": (1024, 3136),
        "output.weight": (10, 1024),
    }
    assert float(net.dense1.weight.detach().std()) == pytest.approx(math.sqrt(2 / 3136), rel=1e-2)
    assert net(torch.zeros(2, 784)).shape == (2, 10)


def test_vgg16_has_its_layers() -> None:
    net = vgg(16, width=4, outputs=10, generator=torch.Generator().manual_seed(0))
    widths = [
        p.shape[0] // 4 for name, p in net.named_parameters() if name.startswith("conv") and p.dim() == 4
    ]
    assert widths == [1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 8, 8, 8]
    assert [name for name, _ in net.named_parameters() if name.endswith("bias")] == ["conv1.bias"]


def test_truncated_starts_are_cut_at_two_standard_deviations_and_keep_their_variance() -> None:
    drawn = draw_truncated_he((400, 50, 3, 3), generator=torch.Generator().manual_seed(0)) / math.sqrt(
        2 / 450
    )
    assert float(drawn.std()) == pytest.approx(1.0, abs=5e-3)
    assert 2.2 < float(drawn.abs().max()) <= 2 / 0.8796256610342398 + 1e-12
    assert abs(float(drawn.mean())) < 5e-3


def test_seeds_decide_and_biases_are_where_they_are_asked_for() -> None:
    assert torch.equal(small().conv2.weight, small().conv2.weight)
    assert [n for n, _ in small(bias="none").named_parameters() if "bias" in n] == []
    assert len([n for n, _ in small(bias="all").named_parameters() if "bias" in n]) == 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kernels": (4, 3)}, "odd"),
        ({"kernels": (3,)}, "one odd size for each"),
        ({"image": (1, 3, 3)}, "halve"),
    ],
)
def test_sizes_that_make_no_network_are_told(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        small(**changes)


@pytest.mark.parametrize("rate", ["constant", "loss-based"])
def test_vgg16_trains_by_both_rules_and_keeps_its_order(rate: str) -> None:
    plan = tiny_study(
        data={"name": "d-binary", "n": 20, "d": 3072, "k": 2},
        model={"name": "vgg16", "width": 4},
        training={
            "optimizer": "sgd",
            "batch_size": 10,
            "learning_rate": 1e-3,
            "epochs": 6,
            "loss": "cross-entropy",
            "rate": rate,
        },
        probe={"measures": ["margins"], "every": "ends"},
        grid={"seed": [0]},
    )
    trial = plan.points[0].trial
    data = build_data(trial.data)
    trainer = Trainer([build_network(trial, data)], data.x, data.y, [build_recipe(trial)])
    begin = float(trainer.log_loss())
    while not trainer.done:
        trainer.run_epoch()
    assert [member.status for member in trainer.members()] == ["finished"]
    assert float(trainer.log_loss()) < begin
    assert homogeneity(trainer.network(0), data.x).order == 14


def test_a_small_one_trains_on_digits_with_the_loss_based_rate() -> None:
    plan = tiny_study(
        data={"name": "digits", "limit": 100},
        model={"name": "cnn", "image": [1, 8, 8], "channels": [4, 8], "kernels": [5, 3], "dense": [16]},
        training={
            "optimizer": "sgd",
            "batch_size": 20,
            "learning_rate": 0.1,
            "epochs": 12,
            "loss": "cross-entropy",
            "rate": "loss-based",
        },
        probe={"measures": ["margins"], "every": "ends"},
        grid={"seed": [0, 1]},
    )
    trials = [point.trial for point in plan.points]
    data = build_data(trials[0].data)
    networks = [build_network(trial, data) for trial in trials]
    trainer = Trainer(networks, data.x, data.y, [build_recipe(trial) for trial in trials])
    begin = trainer.log_loss()
    while not trainer.done:
        trainer.run_epoch()
    assert all(member.status == "finished" for member in trainer.members())
    assert bool((trainer.log_loss() < begin - 0.5).all())
    wrong = trials[0].model_copy(update={"model": trials[0].model.model_copy(update={"image": (1, 28, 28)})})
    with pytest.raises(ConfigError, match=r"model\.image is 1×28×28"):
        build_network(wrong, data)
