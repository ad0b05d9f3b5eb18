"""Losses that exist only as logarithms: gradients beside hundreds of digits, an end at a loss, and t = Σ η."""

from __future__ import annotations

import math
from typing import Any, Literal

import mpmath  # type: ignore[import-untyped]
import pytest
import torch
from torch import Tensor, nn

from undertow.core.losses import Loss, log_loss_gradient, log_loss_with_gradient, log_mean_loss
from undertow.models import Gaussian, two_layer
from undertow.training import LossBased, Recipe, Scheduled, Trainer

GOAL = -881.0


def network(outputs: int, *, dtype: torch.dtype = torch.float64) -> Any:
    draw = torch.Generator().manual_seed(2)
    return two_layer(
        inputs=3, width=5, outputs=outputs, init=Gaussian(1.0), bias="hidden", head="gaussian", dtype=dtype,
        generator=draw,
    )  # fmt: skip


def at_the_goal(outputs: int, loss: Loss) -> tuple[Any, Tensor, Tensor]:
    """A network with points that it classifies, scaled until log₁₀ of its loss is -881; weights that float32 holds."""
    net = network(outputs)
    x = torch.randn(12, 3, generator=torch.Generator().manual_seed(0)).double()
    y = net(x).argmax(1) if outputs > 1 else 2 * (net(x)[:, 0] > 0).double() - 1
    keep = _clear(net(x))
    x, y = x[keep], y[keep]
    with torch.no_grad():
        for _ in range(60):  # the loss is e^(-scale² q): the scale follows from the logarithm
            found = float(log_mean_loss(net(x), y, loss)) / math.log(10)
            for weight in net.parameters():
                weight.mul_(math.sqrt(GOAL / found) if found < -1 else 1.5)
        for weight in net.parameters():
            weight.copy_(weight.float())
    return net, x, y


def _clear(scores: Tensor) -> Tensor:
    """Points whose margin is not small: others would alone decide the loss."""
    if scores.shape[1] == 1:
        return (scores[:, 0].abs() > 0.3 * scores.abs().max()).detach()
    top = scores.topk(2, dim=1).values
    lead = top[:, 0] - top[:, 1]
    return (lead > 0.3 * lead.max()).detach()


def exact_gradient(net: Any, x: Tensor, y: Tensor, loss: Loss) -> tuple[float, Tensor]:
    """log₁₀ L and ∇log L by W, b, A, in 60 digits with exponents of any size."""
    mpmath.mp.dps = 60
    W, b, A = (p.detach().tolist() for p in (net.hidden.weight, net.hidden.bias, net.output.weight))
    width, outputs = len(W), len(A)
    dW = [[mpmath.mpf(0)] * len(W[0]) for _ in W]
    db, dA = [mpmath.mpf(0)] * width, [[mpmath.mpf(0)] * width for _ in A]
    total = mpmath.mpf(0)
    for sample, label in zip(x.tolist(), y.tolist(), strict=True):
        z = [
            mpmath.fdot(zip(map(mpmath.mpf, row), sample, strict=True)) + c
            for row, c in zip(W, b, strict=True)
        ]
        h = [max(v, mpmath.mpf(0)) for v in z]
        s = [mpmath.fdot(zip(map(mpmath.mpf, row), h, strict=True)) for row in A]
        if outputs == 1:
            small = mpmath.exp(-label * s[0])
            value = small if loss == "exponential" else mpmath.log1p(small)
            slopes = [-label * (small if loss == "exponential" else small / (1 + small))]
        else:
            shares = [mpmath.exp(v - s[label]) for v in s]
            value = mpmath.log1p(mpmath.fsum(v for j, v in enumerate(shares) if j != label))
            slopes = [v / mpmath.fsum(shares) for v in shares]
            slopes[label] = -mpmath.fsum(v for j, v in enumerate(slopes) if j != label)
        total += value
        for j, slope in enumerate(slopes):
            for r in range(width):
                dA[j][r] += slope * h[r]
                if z[r] > 0:
                    db[r] += slope * A[j][r]
                    for i, entry in enumerate(sample):
                        dW[r][i] += slope * A[j][r] * entry
    flat = (
        [v / total for row in dW for v in row]
        + [v / total for v in db]
        + [v / total for row in dA for v in row]
    )
    return float(mpmath.log10(total / len(x))), torch.tensor([float(v) for v in flat], dtype=torch.float64)


def flat(net: Any) -> Tensor:
    return torch.cat(
        [p.detach().double().flatten() for p in (net.hidden.weight, net.hidden.bias, net.output.weight)]
    )


@pytest.mark.parametrize(("loss", "outputs"), [("logistic", 1), ("exponential", 1), ("cross-entropy", 3)])
@pytest.mark.parametrize("rule", ["log-loss", "loss-based"])
def test_gradients_at_ten_to_the_minus_881_beside_many_digits(loss: Loss, outputs: int, rule: str) -> None:
    net, x, y = at_the_goal(outputs, loss)
    log10_loss, exact = exact_gradient(net, x, y, loss)
    assert log10_loss == pytest.approx(GOAL, abs=1e-3)
    errors = {}
    precisions: tuple[Literal["float64", "float32"], ...] = ("float64", "float32")
    for dtype in precisions:
        rate = 1e-3 * float(flat(net).norm() / exact.norm())
        settings: dict[str, Any] = {"objective": "log-loss"} if rule == "log-loss" else {"rate": LossBased()}
        recipe = Recipe(optimizer="gd", learning_rate=rate, epochs=1, loss=loss, dtype=dtype, **settings)
        trainer = Trainer([net], x, y, [recipe])
        assert float(trainer.log_loss()) / math.log(10) == pytest.approx(GOAL, abs=2e-2)
        if rule == "loss-based":  # as if the last epoch had been kept with this loss
            trainer.restore({**trainer.state(), "rate.log_frame": trainer.log_loss()})
        trainer.run_epoch()
        taken = (flat(net) - flat(trainer.network(0))) / rate
        errors[dtype] = float((taken - exact).norm() / exact.norm())
    print(f"{loss}, {rule}: relative error of the step {errors['float64']:.1e} in float64, {errors['float32']:.1e} "
          "in float32")  # fmt: skip
    assert errors["float64"] < 1e-6
    assert errors["float32"] < 1e-2


@pytest.mark.parametrize(("loss", "outputs"), [("logistic", 1), ("exponential", 1), ("cross-entropy", 3)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0, 1e4])
def test_the_loss_that_comes_with_its_gradient_is_the_loss(loss: Loss, outputs: int, scale: float) -> None:
    logits = scale * torch.randn(
        2, 7, outputs, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    y = torch.arange(7) % 3 if outputs > 1 else torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0])
    found, _ = log_loss_with_gradient(logits, y, loss)
    torch.testing.assert_close(found, log_mean_loss(logits, y, loss), rtol=1e-13, atol=1e-13)
    logits[0, 2] = -math.inf if outputs == 1 else torch.tensor([-math.inf, 0.0, 1.0])
    found, _ = log_loss_with_gradient(logits, y, loss)  # infinite where a loss is, for that network alone
    torch.testing.assert_close(found, log_mean_loss(logits, y, loss), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("loss", "outputs"), [("logistic", 1), ("exponential", 1), ("cross-entropy", 3)])
def test_nothing_underflows_at_ten_to_the_minus_ten_thousand(loss: Loss, outputs: int) -> None:
    gap = 10_000 * math.log(10)
    logits = torch.tensor([[gap], [gap + 1]]) if outputs == 1 else torch.tensor([[gap, 0.0, 0.0]] * 2)
    y = torch.ones(2) if outputs == 1 else torch.zeros(2, dtype=torch.long)
    log_loss = float(log_mean_loss(logits.double(), y, loss))
    assert -10_001 < log_loss / math.log(10) < -9_999
    slopes = log_loss_gradient(logits, y, loss)
    assert bool(slopes.isfinite().all())
    assert 0.1 < float(slopes.abs().sum()) < 10


def separable() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    y = 2 * (torch.arange(24) % 2) - 1
    return torch.randn(24, 3, generator=draw) + 2.0 * y[:, None], y.float()


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "sgd", "batch_size": 6, "rate": LossBased(), "learning_rate": 0.1},
        {"optimizer": "gd", "objective": "log-loss", "learning_rate": 0.05},
        {"optimizer": "sgd", "batch_size": 6, "learning_rate": 0.5, "stop_below": -2.0},
    ],
)
def test_training_ends_at_a_loss_for_each_network_by_itself(settings: dict[str, Any]) -> None:
    goal = settings.get("stop_below", -40.0)
    nets: list[nn.Module] = [network(1, dtype=torch.float32) for _ in range(2)]
    with torch.no_grad():
        for weight in nets[1].parameters():
            weight.mul_(0.3)  # begins elsewhere, and so ends elsewhere
    recipes = [Recipe(epochs=4000, loss="logistic", **{"stop_below": goal, **settings}) for _ in nets]
    both = Trainer(nets, *separable(), recipes)
    while not both.done:
        both.run_epoch()
    steps, losses = both.steps(), (both.log_loss() / math.log(10)).tolist()
    assert all(loss <= goal for loss in losses)
    assert [member.status for member in both.members()] == ["finished"] * 2
    assert both.finished() == [True, True]
    assert max(steps) < both.total_steps
    assert steps[0] != steps[1]
    for index, net in enumerate(nets):
        alone = Trainer([net], *separable(), [recipes[index]])
        while not alone.done:
            alone.advance(5)
        assert alone.steps() == [steps[index]]
        assert flat(alone.network(0)).tolist() == pytest.approx(flat(both.network(index)).tolist(), rel=1e-4)
        assert alone.log_time()[0] == pytest.approx(both.log_time()[index], rel=1e-5)


def test_training_stops_at_the_first_step_that_is_there_where_every_one_is_looked_at() -> None:
    settings: dict[str, Any] = {"optimizer": "gd", "learning_rate": 0.5, "epochs": 400, "stop_below": -1.0}
    steps, first = {}, None
    trainer = Trainer(
        [network(1)], *separable(), [Recipe(loss="logistic", **settings | {"stop_below": None})]
    )
    for step in range(1, 400):
        trainer.advance(1)
        if float(trainer.log_loss()[0]) <= -math.log(10):
            first = step
            break
    for every in (1, 8):
        own = Trainer([network(1)], *separable(), [Recipe(loss="logistic", look_every=every, **settings)])
        while not own.done:
            own.run_epoch()
        steps[every] = own.steps()[0]
    assert steps[1] == first
    assert first is not None
    assert first < steps[8] == -(-first // 8) * 8
    assert "look_every" not in Recipe(loss="logistic", **settings).model_dump()


def test_time_is_the_sum_of_the_effective_rates() -> None:
    x, y = separable()
    net = network(1)
    kinds: list[dict[str, Any]] = [
        {},
        {"rate": Scheduled(shape="linear")},
        {"objective": "log-loss"},
        {"rate": LossBased(frame_at_start=10.0)},
    ]
    for kind in kinds:
        trainer = Trainer(
            [net], x, y, [Recipe(optimizer="gd", learning_rate=0.1, epochs=8, loss="logistic", **kind)]
        )
        total = 0.0
        while not trainer.done:
            trainer.advance(1)
            taken = trainer.taken()[0]
            total += taken.rate if taken is not None and taken.accepted else 0.0
        assert trainer.log_time()[0] == pytest.approx(math.log(total), rel=1e-9)


def test_a_run_that_ends_at_a_loss_goes_on_from_its_state() -> None:
    x, y = separable()
    settings: dict[str, Any] = {"optimizer": "gd", "learning_rate": 0.05, "epochs": 4000, "stop_below": -30.0}
    recipe = Recipe(loss="logistic", objective="log-loss", **settings)
    through, before = (Trainer([network(1)], x, y, [recipe]) for _ in range(2))
    while not through.done:
        through.run_epoch()
    before.advance(20)
    after = Trainer([network(1)], x, y, [recipe])
    after.restore(before.state())
    while not after.done:
        after.run_epoch()
    assert after.steps() == through.steps()
    assert torch.equal(flat(after.network(0)), flat(through.network(0)))
    assert after.log_time() == through.log_time()
