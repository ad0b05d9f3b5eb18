"""A member that diverges ends as a result, and alone."""

from __future__ import annotations

import math

import pytest
import torch

from tests.training import cases
from tests.training.cases import data, recipe, trained, weights
from undertow.models import mlp
from undertow.training import Trainer
from undertow.training import step as step_module

RATES = [0.05, 1e6, 0.02]  # the second explodes


def trainer(*, optimizer: str = "sgd", epochs: int = 3, dtype: str = "float32", **changes: object) -> Trainer:
    x, y = data()
    recipes = [
        recipe(optimizer=optimizer, learning_rate=rate, epochs=epochs, dtype=dtype, seed=i, **changes)
        for i, rate in enumerate(RATES)
    ]
    return Trainer([cases.dense("relu")(seed) for seed in range(3)], x, y, recipes)


@pytest.mark.parametrize("optimizer", ["gd", "sgd", "momentum"])
def test_the_others_go_on_as_if_alone(optimizer: str) -> None:
    together = trained(trainer(optimizer=optimizer))
    states = together.members()
    assert [state.status for state in states] == ["finished", "diverged", "finished"]
    assert 0 < states[1].step <= together.total_steps
    assert states[1].reason is not None
    assert f"at step {states[1].step}" in states[1].reason
    assert "learning rate below 1e+06" in states[1].reason

    x, y = data()
    for index in (0, 2):
        how = recipe(optimizer=optimizer, learning_rate=RATES[index], dtype="float32", seed=index)
        alone = trained(Trainer([cases.dense("relu")(index)], x, y, [how]))
        for name, weight in weights(alone.network(0)).items():
            torch.testing.assert_close(weights(together.network(index))[name], weight, rtol=1e-4, atol=1e-6)
    assert torch.isfinite(together.log_loss()[[0, 2]]).all()


def test_step_and_weights_do_not_depend_on_when_one_looks() -> None:
    often, once = trainer(), trainer()
    while not often.done:
        often.advance(1)
        often.members()
    trained(once)
    assert often.members() == once.members()
    for index in range(3):
        for name, weight in weights(once.network(index)).items():
            torch.testing.assert_close(
                weights(often.network(index))[name], weight, rtol=0, atol=0, equal_nan=True
            )


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_an_exploding_loss_leaves_the_weights_where_it_was_seen(momentum: float) -> None:
    """One step moves a linear network far away; the second meets the large loss and is not taken."""
    network = mlp(inputs=32, widths=[], outputs=3, generator=cases.generator(0))
    x, y = data()
    alone = Trainer([network], x, y, [recipe(optimizer="gd", learning_rate=1e9, epochs=9, momentum=momentum)])
    alone.advance(1)
    after_one = weights(alone.network(0))["output.weight"].clone()
    trained(alone)
    (state,) = alone.members()
    assert (state.status, state.step) == ("diverged", 1)
    assert torch.equal(weights(alone.network(0))["output.weight"], after_one)
    assert float(alone.log_loss()[0]) > math.log(1e6)


def test_the_last_step_is_watched_too() -> None:
    alone = Trainer([cases.shallow(0)], *data(), [recipe(optimizer="gd", learning_rate=1e9, epochs=1)])
    alone.run_epoch()
    assert [(m.status, m.step) for m in alone.members()] == [("diverged", 1)]


def test_a_start_that_is_not_finite() -> None:
    network = cases.shallow(0)
    network.get_parameter("hidden.weight").data[0, 0] = math.nan
    broken = trained(Trainer([network, cases.shallow(1)], *data(), [recipe(), recipe()]))
    states = broken.members()
    assert (states[0].status, states[0].step) == ("diverged", 0)
    assert states[0].reason == "The training loss was not a number before the first step."
    assert states[1].status == "finished"
    for name, weight in weights(broken.network(0)).items():  # it stays as it was given
        torch.testing.assert_close(weight, weights(network)[name].double(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("optimizer", ["gd", "momentum", "adam"])
def test_a_gradient_that_is_not_finite_does_not_reach_the_weights(optimizer: str) -> None:
    """exp(-q) overflows at the second step: the loss is infinite and so is its gradient."""
    x, y = torch.ones(4, 1), torch.ones(4)
    network = mlp(inputs=1, widths=[], outputs=1, generator=cases.generator(0))
    network.get_parameter("output.weight").data.fill_(-1000.0)
    how = recipe(
        optimizer=optimizer, loss="exponential", epochs=5, **({} if optimizer == "gd" else {"batch_size": 4})
    )
    stopped = trained(Trainer([network], x, y, [how]))
    assert [(m.status, m.step) for m in stopped.members()] == [("diverged", 0)]
    assert weights(stopped.network(0))["output.weight"].tolist() == [[-1000.0]]
    assert stopped.log_loss().tolist() == [1000.0]  # its logarithm is a number all the same


def test_a_batch_cut_in_parts_diverges_at_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of this size put the loss of a linear network above the bound, but not far above."""
    x, y = data()
    network = mlp(inputs=32, widths=[], outputs=3, generator=cases.generator(0))
    hows = [recipe(optimizer="gd", learning_rate=rate, epochs=2) for rate in (1e6, 3e6, 1e7, 3e7, 1e8)]
    whole = trained(Trainer([network] * 5, x, y, hows))
    monkeypatch.setitem(step_module._LARGEST, "cpu", 5 * 3 * 4)
    assert trained(Trainer([network] * 5, x, y, hows)).members() == whole.members()
    assert {member.status for member in whole.members()} == {"finished", "diverged"}


def test_training_ends_when_all_have_diverged() -> None:
    x, y = data()
    lost = Trainer([cases.shallow(0)], x, y, [recipe(optimizer="gd", learning_rate=1e12, epochs=10_000)])
    while not lost.done:
        lost.run_epoch()
    assert lost.step < 1000


def test_divergence_survives_a_checkpoint() -> None:
    first, undisturbed = trainer(epochs=6), trained(trainer(epochs=6))
    first.advance(17)
    assert first.members()[1].status == "diverged"
    second = trainer(epochs=6)
    second.restore(first.state())
    assert trained(second).members() == undisturbed.members()
    for index in range(3):
        for name, weight in weights(undisturbed.network(index)).items():
            torch.testing.assert_close(
                weights(second.network(index))[name], weight, rtol=0, atol=0, equal_nan=True
            )
    torch.testing.assert_close(second.log_loss(), undisturbed.log_loss(), rtol=0, atol=0, equal_nan=True)
