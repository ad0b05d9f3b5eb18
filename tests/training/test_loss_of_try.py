"""The loss after a try from a few samples: the same tries are kept, with the same losses, as from all."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.training.test_loss_based import cnn, digits
from undertow.training import LossBased, Recipe, Trainer
from undertow.training import loss_of_try as module
from undertow.training.loss_of_try import LossOfTry


class Counted:
    """Log-losses that a test sets, and how often all of them and a few were asked for."""

    def __init__(self, values: Tensor) -> None:
        self.values, self.whole, self.few = values, 0, 0

    def __call__(self, rows: Tensor | None) -> Tensor:
        if rows is None:
            self.whole += 1
            return self.values[None]
        self.few += 1
        return self.values[None, rows]


def mean(values: Tensor) -> float:
    return float(torch.logsumexp(values, 0)) - math.log(len(values))


def test_what_a_few_samples_show_is_never_wrong() -> None:
    draw = torch.Generator().manual_seed(0)
    source = Counted(torch.randn(300, generator=draw, dtype=torch.float64) * 20 - 500)
    loss, nothing_lost, yes = (
        LossOfTry(source, samples=300, rounding=1e-16),
        torch.tensor([False]),
        torch.tensor([True]),
    )
    frame = torch.tensor([0.0], dtype=torch.float64)
    kept = spared = 0
    for _ in range(200):
        before = source.values
        source.values = before + torch.randn(300, generator=draw, dtype=torch.float64) * 3 - 0.5
        found, expected = loss(frame, nothing_lost), mean(source.values)
        assert (float(found) <= float(frame)) == (expected <= float(frame))
        if expected <= float(frame):
            assert float(found) == pytest.approx(expected, rel=1e-14)
            loss.note(yes)
            kept, frame = kept + 1, found
        else:
            loss.note(~yes)
            spared += math.isinf(float(found))
            source.values = before
    assert kept > 20
    assert spared > 100
    assert source.whole == 200 - spared


def test_nearly_the_ceiling_is_looked_at_whole() -> None:
    source = Counted(torch.full((60,), -1000.0, dtype=torch.float64))
    source.values[0] = 0.0
    loss, nothing_lost = LossOfTry(source, samples=60, rounding=1e-16), torch.tensor([False])
    ceiling = loss(torch.tensor([1.0], dtype=torch.float64), nothing_lost)
    loss.note(torch.tensor([True]))
    assert loss(ceiling - 0.9e-3, nothing_lost).isfinite()
    assert source.whole == 2
    assert loss(ceiling - 1.1e-3, nothing_lost).isinf()
    assert source.whole == 2
    source.values[0] = math.nan
    assert loss(ceiling, nothing_lost).isinf()
    assert source.whole == 2
    assert loss(ceiling, ~nothing_lost).isinf()
    assert source.few == 3


@pytest.mark.parametrize("depth", [1.0, 1e3, 1e5])
def test_a_tie_is_kept_however_the_few_are_rounded(depth: float) -> None:
    """Losses far down have gaps of logits that one rounding moves by more than any fixed part of a logarithm."""
    rounding = 2.0**-23
    values = -depth - torch.arange(90, dtype=torch.float64)

    def each_log_loss(rows: Tensor | None) -> Tensor:
        return values[None] if rows is None else values[None, rows] * (1 - 8 * rounding)

    loss, nothing_lost = LossOfTry(each_log_loss, samples=90, rounding=rounding), torch.tensor([False])
    frame = loss(torch.tensor([0.0], dtype=torch.float64), nothing_lost)
    loss.note(torch.tensor([True]))
    assert loss(frame, nothing_lost).equal(frame)
    values += 0.1 + 64 * rounding * depth
    assert loss(frame, nothing_lost).isinf()


def test_a_recipe_knows_its_rounding() -> None:
    assert Recipe(optimizer="gd", learning_rate=1, epochs=1).rounding == 2.0**-23
    assert Recipe(optimizer="gd", learning_rate=1, epochs=1, dtype="float64").rounding == 2.0**-52
    coarse = Recipe(optimizer="gd", learning_rate=1, epochs=1, matmul_precision="tf32")
    assert coarse.rounding == 2.0**-10


def test_training_is_the_same_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = digits()

    def trained() -> tuple[Trainer, list[float]]:
        rule = LossBased(frame_at_start=30.0)
        recipe = Recipe(
            optimizer="sgd", batch_size=10, learning_rate=0.3, epochs=12, rate=rule, dtype="float64"
        )
        trainer = Trainer([cnn(1)], x, y, [recipe])
        losses = []
        while not trainer.done:
            trainer.run_epoch()
            losses.append(float(trainer.log_loss()))
        return trainer, losses

    without, losses = trained()
    monkeypatch.setattr(module, "_FEWEST", 1)
    with_few, found = trained()
    assert with_few._step._loss_of_try is not None
    assert without._step._loss_of_try is None
    assert with_few.tries() == without.tries()
    assert with_few.tries()[0] > 12
    assert found == pytest.approx(losses, rel=1e-12)
    for ours, theirs in zip(with_few.network(0).parameters(), without.network(0).parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_run_that_is_resumed_goes_on_to_the_same_bytes(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which samples are looked at first is in no checkpoint; what is kept does not depend on it."""
    monkeypatch.setattr(module, "_FEWEST", 1)
    x, y = digits()
    x, y = x[:97], y[:97]  # the last batch is a short one
    recipe = Recipe(
        optimizer="sgd",
        batch_size=10,
        learning_rate=0.3,
        epochs=9,
        rate=LossBased(frame_at_start=30.0),
        dtype=dtype,
    )

    def begun() -> Trainer:
        return Trainer([cnn(1)], x, y, [recipe])

    whole = begun()
    whole.advance(10**6)
    assert whole.tries()[0] > 12
    for interrupted_at in (13, 40, 77):
        first, then = begun(), begun()
        first.advance(interrupted_at)
        then.restore(first.state())
        assert then._step._loss_of_try is not None
        assert then._step._loss_of_try.rows is None
        then.advance(10**6)
        assert then.tries() == whole.tries()
        assert then.log_loss().equal(whole.log_loss())
        assert all(then.state()[name].equal(tensor) for name, tensor in whole.state().items())


@pytest.mark.parametrize("rate", [1e3, 1e30])
def test_tries_that_overflow_are_taken_back_as_they_are_without_it(
    rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = digits()
    rule = LossBased(frame_at_start=30.0, retreat=1e3, patience=40)
    recipe = Recipe(optimizer="sgd", batch_size=50, learning_rate=rate, epochs=3, rate=rule)

    def ended() -> Trainer:
        trainer = Trainer([cnn(1)], x, y, [recipe])
        trainer.advance(10**6)
        return trainer

    without = ended()
    monkeypatch.setattr(module, "_FEWEST", 1)
    found = ended()
    assert found.tries() == without.tries()
    assert found.tries()[0] > 3
    assert found.epochs() == without.epochs()
    torch.testing.assert_close(found.log_loss(), without.log_loss(), rtol=1e-9, atol=0)
