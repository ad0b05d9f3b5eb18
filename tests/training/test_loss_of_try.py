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
    loss, nothing_lost, yes = LossOfTry(source, samples=300), torch.tensor([False]), torch.tensor([True])
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
    loss, nothing_lost = LossOfTry(source, samples=60), torch.tensor([False])
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
