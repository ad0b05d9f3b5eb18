"""Adam, Signum and Muon in units of the loss: the same steps as ever, and steps at losses that are no floats."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext

import pytest
import torch
from torch import nn

from tests.training import cases
from tests.training.cases import data, trained, weights
from undertow.core.errors import ConfigError
from undertow.training import Recipe, Trainer
from undertow.training.directions import (
    DIRECTIONS,
    Adam,
    AdamW,
    Direction,
    Muon,
    SignDescent,
    find_direction,
    names_of,
)

REMEMBERING = [
    Adam(beta1=0.8, beta2=0.9, epsilon=1e-4),
    Adam(bias_correction=False),
    AdamW(weight_decay=0.5),
    SignDescent(momentum=0.9),
    Muon(),
    Muon(exact=True),
]


def how(direction: Direction, objective: str, **changes: object) -> Recipe:
    options: dict[str, object] = {
        "optimizer": direction,
        "learning_rate": 0.02,
        "epochs": 10,
        "loss": "cross-entropy",
        "batch_size": 8,
        "dtype": "float64",
        "objective": objective,
        **changes,
    }
    return Recipe(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("direction", REMEMBERING, ids=lambda each: repr(each)[:40])
def test_steps_are_those_of_the_loss(direction: Direction) -> None:
    """Fifty steps, on batches of which some are learnt long before the others."""
    nets = [cases.dense("relu")(seed) for seed in range(2)]
    plain = trained(Trainer(nets, *data(), [how(direction, "loss", seed=seed) for seed in range(2)]))
    framed = trained(Trainer(nets, *data(), [how(direction, "framed-loss", seed=seed) for seed in range(2)]))
    close = (
        1e-7 if getattr(direction, "exact", False) else 1e-9
    )  # polar factors of what rounding makes of zeros
    for member in range(2):
        for key, weight in weights(plain.network(member)).items():
            torch.testing.assert_close(weights(framed.network(member))[key], weight, rtol=0, atol=close)


def linear(weight: list[float]) -> nn.Linear:
    layer = nn.Linear(len(weight), 1, bias=False).double()
    layer.weight.data.copy_(torch.tensor([weight]))
    return layer


def adam_by_hand(w: list[float], points: list[list[float]], *, steps: int, epsilon: float) -> list[float]:
    """Adam on the mean logistic loss of points of class 1, in decimals that have fifty digits and any exponent."""
    getcontext().prec, getcontext().Emin = 50, -(10**9)
    now, rows = [Decimal(each) for each in w], [[Decimal(each) for each in point] for point in points]
    first, second = [Decimal(0)] * len(w), [Decimal(0)] * len(w)
    beta1, beta2 = Decimal("0.9"), Decimal("0.95")
    for step in range(1, steps + 1):
        scores = [sum((a * b for a, b in zip(now, row, strict=True)), Decimal(0)) for row in rows]
        pulls = [1 / (1 + score.exp()) / len(points) for score in scores]
        for i in range(len(w)):
            slope = -sum(pull * row[i] for pull, row in zip(pulls, rows, strict=True))
            first[i] = beta1 * first[i] + (1 - beta1) * slope
            second[i] = beta2 * second[i] + (1 - beta2) * slope**2
        for i in range(len(w)):
            root = (second[i] / (1 - beta2**step)).sqrt() + Decimal(epsilon)
            now[i] -= Decimal("0.5") * first[i] / (1 - beta1**step) / root
    return [float(each) for each in now]


@pytest.mark.parametrize(
    ("size", "epsilon", "least"), [(950.0, 0.0, 5.0), (950.0, 1e-150, 0.0), (240.0, 1e-104, 1e-4)]
)
def test_adam_at_losses_that_are_no_floats(size: float, epsilon: float, least: float) -> None:
    """At 10⁻⁴⁰⁰ it goes on with ε = 0 and has long stopped with another; at 10⁻¹⁰⁴ with an ε like the slopes."""
    start, points = [size, 25.0], [[1.0, 0.3], [1.0, -0.2], [1.1, 0.25]]
    x, y = torch.tensor(points).double(), torch.ones(3, dtype=torch.long)
    recipe = how(
        Adam(beta1=0.9, beta2=0.95, epsilon=epsilon),
        "framed-loss",
        learning_rate=0.5,
        epochs=60,
        batch_size=None,
        loss="logistic",
    )
    trainer = Trainer([linear(start)], x, y, [recipe])
    assert float(trainer._step.log_loss()) / math.log(10) < (-400 if size > 900 else -100)
    found = weights(trained(trainer).network(0))["weight"].flatten().tolist()
    theirs = adam_by_hand(start, x.tolist(), steps=60, epsilon=epsilon)
    assert found == pytest.approx(theirs, rel=1e-12)
    moved = max(abs(a - b) for a, b in zip(found, start, strict=True))
    assert moved >= least
    assert moved == 0 or least > 0


def test_signum_and_muon_go_on_where_the_loss_is_no_float() -> None:
    x, y = torch.eye(2).double() + 0.1, torch.tensor([0, 1])
    layer = nn.Linear(2, 2, bias=False).double()
    layer.weight.data.copy_(1000 * torch.eye(2))
    for direction in (SignDescent(momentum=0.9), Muon(), Adam(epsilon=0.0)):
        before, after = (
            trained(Trainer([layer], x, y, [how(direction, objective, batch_size=None, epochs=3)]))
            for objective in ("loss", "framed-loss")
        )
        start = layer.weight.detach()
        assert torch.equal(weights(before.network(0))["weight"], start)
        assert float((weights(after.network(0))["weight"] - start).abs().max()) > 0.01


def test_a_jump_of_the_loss_overflows_nothing() -> None:
    """One sample is learnt and the other is not: their losses differ by 10⁴³⁰ from step to step."""
    x, y = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).double(), torch.ones(2, dtype=torch.long)
    for direction in (Adam(epsilon=0.0), SignDescent(momentum=0.5), Muon(momentum=0.5)):
        recipe = how(direction, "framed-loss", batch_size=1, shuffle=False, loss="logistic", epochs=20)
        found = weights(trained(Trainer([linear([1000.0, 0.0])], x, y, [recipe])).network(0))["weight"]
        assert bool(found.isfinite().all())
        assert float(found[0, 1]) > 0.02


@pytest.mark.parametrize(
    "direction", [find_direction(name) for kind in DIRECTIONS for name in names_of(kind)]
)
def test_who_asks_for_the_unit_is_refused(direction: Direction) -> None:
    if direction.forgetting is None:
        with pytest.raises(ConfigError, match="as long as the gradient, whatever its unit"):
            how(direction, "framed-loss", batch_size=None)
        return
    held = {"w": torch.randn(1, 3, 4, generator=cases.generator(0)).double()}
    other = {"w": held["w"].clone()}
    gradient = {"w": torch.randn(1, 3, 4, generator=cases.generator(1)).double()}
    rate = torch.tensor([0.1]).double()
    if hasattr(direction, "epsilon"):
        direction = direction.model_copy(update={"epsilon": 0.0})
    direction.step(held, gradient, direction.start(held), rate)
    direction.step(other, {"w": 2.0**-300 * gradient["w"]}, direction.start(other), rate)
    torch.testing.assert_close(held["w"], other["w"], rtol=1e-12, atol=0)


def test_a_framed_training_resumes_bit_for_bit() -> None:
    def make() -> Trainer:
        recipes = [how(Adam(), "framed-loss", seed=seed, epochs=2) for seed in range(2)]
        return Trainer([cases.dense()(seed) for seed in range(2)], *data(), recipes)

    first, undisturbed, second = make(), make(), make()
    first.advance(7)
    second.restore(first.state())
    for key, tensor in trained(undisturbed).state().items():
        assert torch.equal(trained(second).state()[key], tensor), key
