"""Training in the span of the samples is the same training, in fewer coordinates."""

from __future__ import annotations

import pytest
import torch

from undertow.core.errors import ConfigError, ModelError
from undertow.measures.rank import StableRank
from undertow.training import Recipe, Trainer

from .cases import convolutional, data, dense, shallow

FEW = 9  # of 32 numbers each


def settings(**changed: object) -> dict[str, object]:
    return {
        "optimizer": "sgd",
        "learning_rate": 0.3,
        "epochs": 6,
        "batch_size": 4,
        "dtype": "float64",
        **changed,
    }


@pytest.mark.parametrize("build", [dense(), dense("tanh"), shallow])
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"optimizer": "gd", "batch_size": None},
        {"frozen": ("output.weight",)},
        {
            "optimizer": "gd",
            "batch_size": None,
            "learning_rate": 0.05,
            "epochs": 20,
            "rate": {"name": "loss-based", "growth": 1.0, "frame_at_start": 30.0},
        },
    ],
)
def test_weights_are_those_of_ordinary_training(build, changed) -> None:  # type: ignore[no-untyped-def]
    x, y = data(FEW)
    ways = []
    for coordinates in ("inputs", "span"):
        recipes = [Recipe(**settings(**changed), seed=seed, coordinates=coordinates) for seed in (0, 1)]
        trainer = Trainer([build(3), build(4)], x.double(), y, recipes)
        trainer.advance(1000)
        ways.append(trainer)
    ordinary, span = ways
    assert span._step.ensemble.weights[span._whole.first].shape[2] == FEW  # type: ignore[attr-defined]
    for index in range(2):
        start = dict(build(3 + index).double().named_parameters())
        for (name, ours), theirs in zip(
            span.network(index).named_parameters(), ordinary.network(index).parameters(), strict=True
        ):
            assert torch.allclose(ours, theirs, rtol=0, atol=1e-9)
            if name not in changed.get("frozen", ()):
                assert not torch.allclose(ours, start[name], rtol=0, atol=1e-3)
    assert torch.allclose(span.log_loss(), ordinary.log_loss(), atol=1e-9)
    assert all(torch.equal(*pair) for pair in zip(span.data(1), ordinary.data(1), strict=True))


def test_shared_networks_and_all_together_follow_when_shown() -> None:
    x, y = data(FEW)
    recipes = [Recipe(**settings(), seed=seed, coordinates="span") for seed in (0, 1)]
    trainer = Trainer([shallow(0), shallow(1)], x.double(), y, recipes)
    networks = [trainer.network(index, shared=True) for index in range(2)]
    trainer.advance(5)
    before = networks[1].hidden.weight.clone()  # type: ignore[union-attr, operator]
    trainer.show()
    assert not torch.equal(networks[1].hidden.weight, before)  # type: ignore[union-attr, arg-type]
    other = torch.randn(7, 2, 4, 4, dtype=torch.float64)  # not in the span
    together = trainer.together()
    alone = torch.stack([network(other) for network in networks])
    assert torch.allclose(together.scores(other), alone, atol=1e-12)
    read, apart = StableRank().batched(together, x, None), StableRank().batched(networks, x, None)
    assert [value for own in read for _, value, _ in own] == pytest.approx(
        [value for own in apart for _, value, _ in own], rel=1e-12
    )


def test_members_with_samples_of_their_own_have_spans_of_their_own() -> None:
    every, labels = data(2 * FEW)
    x, y = list(every.double().split(FEW)), list(labels.split(FEW))
    ways = []
    for coordinates in ("inputs", "span"):
        recipes = [Recipe(**settings(), seed=seed, coordinates=coordinates) for seed in (0, 1)]
        ways.append(Trainer([shallow(0), shallow(1)], x, y, recipes))
        ways[-1].advance(1000)
    ordinary, span = ways
    for index in range(2):
        for ours, theirs, start in zip(
            *(each.network(index).parameters() for each in (span, ordinary)),
            shallow(index).double().parameters(),
            strict=True,
        ):
            assert torch.allclose(ours, theirs, rtol=0, atol=1e-9)
            assert not torch.allclose(ours, start, rtol=0, atol=1e-3)
        assert torch.equal(span.data(index)[0], x[index])


def test_a_run_goes_on_from_its_state() -> None:
    x, y = data(FEW)
    recipe = Recipe(**settings(), coordinates="span")
    whole, first, second = (Trainer([shallow(2)], x.double(), y, [recipe]) for _ in range(3))
    whole.advance(11)
    first.advance(6)
    second.restore(first.state())
    second.advance(5)
    pairs = zip(whole.network(0).parameters(), second.network(0).parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)


def test_what_leaves_the_span_is_refused() -> None:
    for changed in (
        {"optimizer": "adam"},
        {"momentum": 0.9},
        {"penalty": {"name": "jacobian", "weight": 0.1}},
    ):
        with pytest.raises(ConfigError, match="span"):
            Recipe(**settings(**changed), coordinates="span")
    x, y = data(FEW)
    with pytest.raises(ModelError, match="span"):
        Trainer([convolutional(0)], x, y, [Recipe(**settings(dtype="float32"), coordinates="span")])


def test_identities_without_it_are_what_they_were() -> None:
    assert "coordinates" not in Recipe(**settings()).model_dump()
    assert Recipe(**settings(), coordinates="span").model_dump()["coordinates"] == "span"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_it_is_what_it_is_on_the_cpu() -> None:
    x, y = data(FEW)
    recipes = [Recipe(**settings(), seed=seed, coordinates="span") for seed in (0, 1)]
    here, there = (
        Trainer([shallow(0), shallow(1)], x.double(), y, recipes, device=device) for device in ("cpu", "cuda")
    )
    for trainer in (here, there):
        trainer.advance(1000)
    for index in range(2):
        for ours, theirs in zip(
            here.network(index).parameters(), there.network(index).parameters(), strict=True
        ):
            assert torch.allclose(ours, theirs.cpu(), rtol=0, atol=1e-9)
