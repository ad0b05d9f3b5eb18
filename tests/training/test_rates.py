"""Rates that follow a plan, steps that follow ∇log L, and what trackers are told of both."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator

import pytest
import torch
from pydantic import ValidationError
from torch import nn
from torch.optim import lr_scheduler

from tests.training import cases
from tests.training.cases import data, recipe, trained, weights
from undertow.measures.co_correlation_growth import Growth
from undertow.models import Scaled, two_layer
from undertow.training import Recipe, Scheduled, StepTaken, Trainer
from undertow.training import step as step_module
from undertow.training import updates as updates_module
from undertow.training.batches import epoch_order
from undertow.training.rates import Horizon

EPOCHS, PER_EPOCH = 6, 5


def planned(rule: Scheduled) -> list[float]:
    horizon = Horizon(EPOCHS, PER_EPOCH, 0.0)
    base = torch.tensor([0.3], dtype=torch.float64)
    return [rule.rates(base, torch.tensor(t), {}, horizon).item() for t in range(EPOCHS * PER_EPOCH)]


def by_torch(make: Callable[[torch.optim.Optimizer], lr_scheduler.LRScheduler], *, per: str) -> list[float]:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.3)
    scheduler = make(optimizer)
    rates = []
    for t in range(EPOCHS * PER_EPOCH):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if per == "step" or (t + 1) % PER_EPOCH == 0:
            scheduler.step()
    return rates


def warm(
    optimizer: torch.optim.Optimizer, units: int, then: lr_scheduler.LRScheduler
) -> lr_scheduler.LRScheduler:
    rising = lr_scheduler.LinearLR(optimizer, start_factor=1 / units, total_iters=units - 1)
    return lr_scheduler.SequentialLR(optimizer, [rising, then], milestones=[units])


PLANS: dict[str, tuple[Scheduled, Callable[[torch.optim.Optimizer], lr_scheduler.LRScheduler]]] = {
    "cosine": (Scheduled(), lambda o: lr_scheduler.CosineAnnealingLR(o, EPOCHS * PER_EPOCH)),
    "cosine to a tenth, by epochs": (
        Scheduled(end=0.1, per="epoch"),
        lambda o: lr_scheduler.CosineAnnealingLR(o, EPOCHS, eta_min=0.03),
    ),
    "steps": (
        Scheduled(shape="steps", milestones=(2, 3.4), factor=0.2),
        lambda o: lr_scheduler.MultiStepLR(o, [10, 17], gamma=0.2),
    ),
    "steps by epochs": (
        Scheduled(shape="steps", milestones=(2, 4), factor=0.2, per="epoch"),
        lambda o: lr_scheduler.MultiStepLR(o, [2, 4], gamma=0.2),
    ),
    "line": (
        Scheduled(shape="linear", end=0.25),
        lambda o: lr_scheduler.LinearLR(o, 1.0, 0.25, total_iters=EPOCHS * PER_EPOCH),
    ),
    "warm-up": (
        Scheduled(shape="constant", warmup=2.0),
        lambda o: lr_scheduler.LinearLR(o, start_factor=1 / 10, total_iters=9),
    ),
    "warm-up and cosine": (
        Scheduled(warmup=2.0),
        lambda o: warm(o, 10, lr_scheduler.CosineAnnealingLR(o, EPOCHS * PER_EPOCH - 10)),
    ),
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.filterwarnings("ignore:The epoch parameter in `scheduler.step")
def test_plans_are_those_of_torch(name: str) -> None:
    rule, make = PLANS[name]
    assert planned(rule) == pytest.approx(by_torch(make, per=rule.per), rel=1e-9)


def test_a_network_follows_its_plan_alone_among_others_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Scheduled(warmup=1.0, shape="cosine", end=0.05)
    x, y = data()

    def make(members: list[int]) -> Trainer:
        recipes = [recipe(rate=rule, learning_rate=0.05 * (i + 1), seed=i) for i in members]
        return Trainer([cases.dense("relu")(i) for i in members], x, y, recipes)

    together = trained(make([0, 1, 2]))
    monkeypatch.setattr(updates_module, "capture", lambda step, changed: step)  # noqa: ARG005
    replayed = make([0, 1, 2])
    replayed._updates.may_capture = True
    trained(replayed)
    for index in range(3):
        net = cases.dense("relu")(index).double()
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        rates = [
            rule.rates(
                torch.tensor([0.05 * (index + 1)], dtype=torch.float64),
                torch.tensor(t),
                {},
                Horizon(3, 5, 0.0),
            ).item()
            for t in range(15)
        ]
        for t in range(15):
            rows = epoch_order(len(x), seeds=[index], epoch=t // 5)[t % 5 * 8 : t % 5 * 8 + 8]
            optimizer.param_groups[0]["lr"] = rates[t]
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[rows].double()), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        alone = trained(make([index]))
        for name, weight in weights(net).items():
            for trainer, place in ((together, index), (alone, 0), (replayed, index)):
                torch.testing.assert_close(
                    weights(trainer.network(place))[name], weight, rtol=1e-10, atol=1e-12
                )


def test_in_place_steps_follow_the_plan_too() -> None:
    """The way a GPU takes, checked where there is none."""
    x, y = data()
    results = []
    for in_place in (True, False):
        trainer = Trainer([cases.dense("relu")(0)], x, y, [recipe(rate=Scheduled(), learning_rate=0.5)])
        trainer._step = step_module.Step(
            trainer._step.ensemble,
            [recipe(rate=Scheduled(), learning_rate=0.5)],
            trainer._batches,
            in_place=in_place,
        )
        results.append(weights(trained(trainer).network(0)))
    for name, weight in results[0].items():
        torch.testing.assert_close(weight, results[1][name], rtol=1e-12, atol=1e-14)


def logs(network: nn.Module, how: Recipe) -> Iterator[tuple[nn.Module, float]]:
    """Descent on log L of each batch (where it is below the bound), by autograd; the network and log L before."""
    network, (x, y) = copy.deepcopy(network).double(), data()
    for epoch in range(how.epochs):
        for rows in epoch_order(len(x), seeds=[how.seed], epoch=epoch).split(how.batch_size or len(x)):
            loss = nn.functional.cross_entropy(network(x[rows].double()), y[rows])
            below = how.log_below is None or loss.log().item() < how.log_below
            gradients = torch.autograd.grad(loss.log() if below else loss, list(network.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(network.parameters(), gradients, strict=True):
                    parameter.sub_(how.learning_rate * gradient)
            yield network, loss.log().item() if below else 0.0


@pytest.mark.parametrize("log_below", [None, 0.0])
@pytest.mark.parametrize("part", [None, 3])
def test_steps_may_follow_the_log_of_the_loss(
    log_below: float | None, part: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = data()
    hows = [
        recipe(objective="log-loss", log_below=log_below, learning_rate=0.2 * (seed + 1), seed=seed, epochs=6)
        for seed in range(2)
    ]
    if part is not None:
        monkeypatch.setitem(step_module._LARGEST, "cpu", 2 * 19 * part)
    trainer = Trainer([cases.dense("tanh")(seed) for seed in range(2)], x, y, hows)
    plain = [logs(cases.dense("tanh")(seed), how) for seed, how in enumerate(hows)]
    switched = set()
    while not trainer.done:
        trainer.advance(1)
        for index, loop in enumerate(plain):
            network, log_loss = next(loop)
            taken = trainer.taken()[index]
            assert taken is not None
            assert taken.accepted
            assert taken.rate == pytest.approx(hows[index].learning_rate / math.exp(log_loss), rel=1e-9)
            switched.add(log_loss == 0.0)
    for index, loop in enumerate(plain):
        for name, weight in weights(network if index == 1 else trainer.network(0)).items():
            torch.testing.assert_close(weights(trainer.network(index))[name], weight, rtol=1e-8, atol=1e-10)
        assert next(loop, None) is None
    assert switched == ({False} if log_below is None else {False, True})


def test_steps_on_the_log_go_where_the_loss_itself_has_no_gradient() -> None:
    net = two_layer(
        inputs=2, width=4, outputs=2, init=Scaled(q=0.0), head="gaussian", generator=cases.generator(0)
    )
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(60.0)
    x = torch.randn(6, 2, generator=cases.generator(1))
    y = net(x).argmax(1).detach()
    ordinary, by_logs = (
        Trainer(
            [net],
            x,
            y,
            [recipe(optimizer="gd", learning_rate=0.1, epochs=5, dtype="float32", objective=kind)],
        )
        for kind in ("loss", "log-loss")
    )
    begin = by_logs.log_loss().item()
    assert trained(by_logs).log_loss().item() < begin - 10
    assert trained(ordinary).log_loss().item() > begin - 1e-3


def test_growth_follows_rates_that_change() -> None:
    """With the rate that each step really had, the sums are those of the flow: one long step is two half ones."""
    generator = torch.Generator().manual_seed(4)
    net = two_layer(
        inputs=6, width=10, activation="tanh", init=Scaled(q=0.25), dtype=torch.float64, generator=generator
    )
    x = torch.randn(30, 6, generator=generator, dtype=torch.float64)
    y = (x[:, 0] > 0).double()
    tracker = Growth(points=5).begin(net, x, y, learning_rate=0.1)
    told = Growth(points=5).begin(net, x, y, learning_rate=0.1)
    gradient = torch.ones_like(net.get_parameter("hidden.weight"))
    for length, rate in ((0.01, 0.1), (0.03, 0.3), (0.05, 0.5)):
        with torch.no_grad():
            net.get_parameter("hidden.weight").sub_(
                length * gradient
            )  # always the same direction, per unit of time
        tracker.observe(net, StepTaken(rate))
        told.observe(net, StepTaken(0.1))  # as if the rate had stayed
    right, wrong = ({key: value for key, value, _ in each.read(net, x, None)} for each in (tracker, told))
    assert right["flow_time"] == pytest.approx(0.9)
    assert wrong["flow_time"] == pytest.approx(0.3)
    directions = [each._history.early[-1].norm() / each._history.early[0].norm() for each in (tracker, told)]
    assert float(directions[0]) == pytest.approx(1.0, rel=0.2)  # what the flow saw did not change
    assert float(directions[1]) > 2  # but would seem to, where the rate is taken for constant


@pytest.mark.parametrize(
    "settings", [{"shape": "steps"}, {"milestones": (1,)}, {"shape": "zigzag"}, {"warmup": -1.0}]
)
def test_plans_that_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Scheduled(**settings)  # type: ignore[arg-type]


def test_a_rate_that_falls_like_a_power_of_the_step() -> None:
    net = torch.nn.Linear(1, 1, bias=False)
    net.weight.data.fill_(1.0)
    recipe = Recipe(
        optimizer="sign-descent",
        learning_rate=0.5,
        epochs=4,
        loss="logistic",
        rate={"name": "power", "exponent": 0.5},
    )
    trainer = Trainer([net], torch.ones(2, 1), torch.ones(2), [recipe])
    trainer.advance(4)
    walked = next(trainer.network(0).parameters()).item() - 1.0
    assert walked == pytest.approx(0.5 * sum(t**-0.5 for t in (1, 2, 3, 4)), rel=1e-5)
    assert trainer.log_time()[0] == pytest.approx(math.log(walked), rel=1e-5)
