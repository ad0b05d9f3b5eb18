"""The captured step: the same numbers as step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training import cases
from tests.training.cases import data, recipe, trained, weights
from undertow.core.precision import matmul_precision
from undertow.training import CollaborationPenalty, EnergyPenalty, JacobianPenalty, Recipe, Trainer
from undertow.training import updates as updates_module
from undertow.training.adversarial import AdversarialTraining
from undertow.training.capture import capture

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def networks(device: str, *, optimizer: str = "sgd", **changes: object) -> Trainer:
    recipes = [
        recipe(optimizer=optimizer, seed=seed, learning_rate=0.01 * (seed + 1), **changes)
        for seed in range(3)
    ]
    return Trainer([cases.dense("relu")(seed) for seed in range(3)], *data(), recipes, device=device)


def largest_difference(ours: Trainer, theirs: Trainer) -> float:
    return max(
        float((weight.cpu() - weights(theirs.network(index))[name].cpu()).abs().max())
        for index in range(3)
        for name, weight in weights(ours.network(index)).items()
    )


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("optimizer", cases.OPTIMIZERS)
def test_a_replayed_step_reads_the_batch_of_its_turn(
    optimizer: str, shuffle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What surrounds the graph, on any machine: the captured step is called where CUDA would replay it."""
    replays: list[int] = []

    def call_again(step: Callable[[], None], *, changed: Sequence[Tensor]) -> Callable[[], None]:
        assert all(tensor.data_ptr() for tensor in changed)
        return lambda: (replays.append(1), step())[1]  # type: ignore[func-returns-value]

    expected = trained(networks("cpu", optimizer=optimizer, shuffle=shuffle))
    monkeypatch.setattr(updates_module, "capture", call_again)
    replayed = networks("cpu", optimizer=optimizer, shuffle=shuffle)
    replayed._updates.may_capture = True
    trained(replayed)
    assert len(replays) == (3 if optimizer == "gd" else 3 * 4)  # of five batches the last is partial
    assert largest_difference(replayed, expected) == 0


@needs_cuda
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("optimizer", cases.OPTIMIZERS)
def test_a_gpu_trains_as_a_cpu_does(optimizer: str, shuffle: bool) -> None:
    on_gpu = trained(networks("cuda", optimizer=optimizer, shuffle=shuffle))
    assert on_gpu._updates.replay is not None
    assert largest_difference(on_gpu, trained(networks("cpu", optimizer=optimizer, shuffle=shuffle))) < 1e-10
    assert on_gpu.network(0).get_parameter("hidden1.weight").is_cuda


@needs_cuda
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_step_of_an_epoch_with_one_full_batch_is_captured(shuffle: bool) -> None:
    """The steps that a capture tries beforehand read no batch that is not there."""
    changes: dict[str, Any] = {"shuffle": shuffle, "batch_size": len(data()[0]) - 1}
    on_gpu = trained(networks("cuda", **changes))
    assert on_gpu._updates.replay is not None
    assert largest_difference(on_gpu, trained(networks("cpu", **changes))) < 1e-10


ADDED: dict[str, dict[str, object]] = {
    "jacobian": {"penalty": JacobianPenalty(0.1)},
    "energy": {"penalty": EnergyPenalty(0.1)},
    "collaboration": {"penalty": CollaborationPenalty("activation1", 0.1)},
    "adversary": {"adversary": AdversarialTraining(eps=0.2, steps=2)},
}


@pytest.mark.parametrize("added", ADDED)
@pytest.mark.parametrize("optimizer", ["gd", "sgd"])
def test_a_replayed_step_draws_and_remembers_by_its_turn(
    optimizer: str, added: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = trained(networks("cpu", optimizer=optimizer, **ADDED[added]))
    monkeypatch.setattr(updates_module, "capture", lambda step, *, changed: step)  # noqa: ARG005
    replayed = networks("cpu", optimizer=optimizer, **ADDED[added])
    replayed._updates.may_capture = True
    assert largest_difference(trained(replayed), expected) == 0


@needs_cuda
@pytest.mark.parametrize("added", ADDED)
@pytest.mark.parametrize("optimizer", ["gd", "sgd", "adam"])
def test_penalties_and_adversaries_are_captured(optimizer: str, added: str) -> None:
    on_gpu = trained(networks("cuda", optimizer=optimizer, **ADDED[added]))
    assert on_gpu._updates.replay is not None
    assert largest_difference(on_gpu, trained(networks("cpu", optimizer=optimizer, **ADDED[added]))) < 1e-9


@needs_cuda
@pytest.mark.parametrize("added", ADDED)
def test_penalties_of_convolutional_networks_are_captured(added: str) -> None:
    how = {"penalty": CollaborationPenalty("2", 0.1)} if added == "collaboration" else ADDED[added]
    pairs = [
        trained(
            Trainer(
                [cases.convolutional(seed) for seed in range(2)],
                *data(),
                [recipe(seed=seed, **how) for seed in range(2)],  # type: ignore[arg-type]
                device=device,
            )
        )
        for device in ("cuda", "cpu")
    ]
    assert pairs[0]._updates.replay is not None
    for name, weight in weights(pairs[0].network(1)).items():
        torch.testing.assert_close(weight.cpu(), weights(pairs[1].network(1))[name], rtol=1e-8, atol=1e-10)


@needs_cuda
def test_a_gpu_resumes_bit_for_bit() -> None:
    first = networks("cuda", dtype="float32")
    first.advance(7)
    second = networks("cuda", dtype="float32")
    second.restore(first.state())
    assert largest_difference(trained(first), trained(second)) == 0


@needs_cuda
@pytest.mark.parametrize("build", [cases.convolutional, cases.polynomial])
def test_other_architectures_train_on_a_gpu(build: cases.Build) -> None:
    pairs = [
        trained(Trainer([build(0)] * 2, *data(), [recipe(seed=1), recipe(seed=2)], device=device))
        for device in ("cuda", "cpu")
    ]
    assert pairs[0]._updates.replay is not None  # as one launch, like fully connected networks
    for name, weight in weights(pairs[0].network(1)).items():
        torch.testing.assert_close(weight.cpu(), weights(pairs[1].network(1))[name], rtol=1e-9, atol=1e-12)


@needs_cuda
def test_what_cannot_be_captured_is_left_as_it_was() -> None:
    tensor = torch.ones(3, device="cuda")

    def step() -> None:
        tensor.mul_(2)
        tensor.sum().item()  # asks the host, which no graph can

    assert capture(step, changed=[tensor]) is None
    assert tensor.tolist() == [1, 1, 1]


def test_precision_of_products_and_convolutions_is_put_back_also_after_an_error() -> None:
    def chosen() -> tuple[str, bool]:
        return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32

    before = chosen()
    with pytest.raises(KeyError, match="high"), matmul_precision("tf32"):
        raise KeyError(*chosen())
    with matmul_precision("float32"):
        assert chosen() == ("highest", False)
        with matmul_precision("tf32"):
            assert chosen() == ("high", True)
        assert chosen() == ("highest", False)
    assert chosen() == before


@pytest.mark.skipif(not hasattr(torch.backends.cudnn, "conv"), reason="PyTorch has no newer settings")
def test_precision_is_switched_in_programs_that_use_the_newer_settings() -> None:
    """The older ones cannot be asked any more where convolutions and recurrent layers differ."""
    backends: Any = torch.backends
    conv, products = backends.cudnn.conv, backends.cuda.matmul
    before = conv.fp32_precision, products.fp32_precision
    try:
        conv.fp32_precision, products.fp32_precision = "ieee", "ieee"
        with matmul_precision("tf32"):
            assert (conv.fp32_precision, products.fp32_precision) == ("tf32", "tf32")
        assert (conv.fp32_precision, products.fp32_precision) == ("ieee", "ieee")
    finally:
        conv.fp32_precision, products.fp32_precision = before


def test_convolutions_are_deterministic_while_training() -> None:
    seen = []

    class Asking(torch.nn.Conv1d):
        def forward(self, input: Tensor) -> Tensor:
            seen.append((torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark))
            return super().forward(input)

    net = torch.nn.Sequential(torch.nn.Unflatten(1, (1, -1)), Asking(1, 1, 2), torch.nn.Flatten())
    before = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    training = Recipe(optimizer="gd", learning_rate=0.1, epochs=1, loss="cross-entropy")
    trainer = Trainer([net], x, torch.tensor([0, 1, 0, 1]), [training])
    seen.clear()
    trainer.run_epoch()
    assert seen
    assert set(seen) == {(True, False)}
    assert (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark) == before
