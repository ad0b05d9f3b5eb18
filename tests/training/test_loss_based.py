"""The loss-based rate: the same tries, rates and losses as a plain loop, alone and among others."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from tests.training import cases
from tests.training.cases import data, recipe, weights
from undertow.core.errors import ConfigError, StoreError
from undertow.data import load
from undertow.models import mlp
from undertow.training import LossBased, Recipe, Trainer
from undertow.training import step as step_module
from undertow.training import updates as updates_module
from undertow.training.batches import epoch_order
from undertow.training.rates import Horizon

EPOCHS, BATCH = 14, 10
ALPHAS = (0.3, 1.0, 3.0, 1.5)
LIMIT = 3.0  # 600 in the study, which small networks do not meet


@cache
def digits() -> tuple[Tensor, Tensor]:
    found = load("digits", split="train", limit=100)
    return found.x.reshape(-1, 1, 8, 8).double(), found.y


def cnn(seed: int) -> nn.Module:
    """The study's network in small: convolutions, one bias, no more than homogeneous."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 6, 3, padding=1, bias=False),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(24, 16, bias=False),
            nn.ReLU(),
            nn.Linear(16, 10, bias=False),
        )
        for parameter in net.parameters():
            if parameter.dim() > 1:
                nn.init.kaiming_normal_(parameter)
        nn.init.normal_(
            parameter, std=0.01
        )  # the loss must start near that of equal outputs, or no try is kept
    return net.double()


def how(index: int, **changes: object) -> Recipe:
    options: dict[str, object] = {
        "optimizer": "sgd",
        "learning_rate": ALPHAS[index],
        "batch_size": BATCH,
        "epochs": EPOCHS,
        "loss": "cross-entropy",
        "dtype": "float64",
        "seed": index,
        "rate": LossBased(ceiling=LIMIT),
        **changes,
    }
    return Recipe(**options)  # type: ignore[arg-type]


def plain_loop(net: nn.Module, alpha: float, seed: int, epochs: int) -> list[tuple[bool, float, float]]:
    """Every try of a training run: whether it was kept, log L after it, and α before it. Nothing of ours."""
    x, y = digits()

    def log_loss() -> float:
        with torch.no_grad():
            scores = net(x)
            others = scores.masked_fill(one_hot(y, 10).bool(), -math.inf).logsumexp(1)
            each = torch.nn.functional.softplus(others - scores.gather(1, y[:, None])[:, 0])
        return math.log(each.mean().item())

    frame, epoch, failed = math.log(10), 0, 0
    tries: list[tuple[bool, float, float]] = []
    while epoch < epochs:
        before = copy.deepcopy(net.state_dict())
        entropy = (seed, epoch, failed) if failed else (seed, epoch)
        mixed = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(mixed >> 1))
        hopeless = False
        for rows in order.split(BATCH):
            loss = cross_entropy(net(x[rows]), y[rows]) / frame
            if not loss.item() <= LIMIT:
                hopeless = True
                break
            gradients = torch.autograd.grad(loss, list(net.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(net.parameters(), gradients, strict=True):
                    parameter.sub_(alpha * gradient)
        now = math.nan if hopeless else log_loss()
        kept = now <= math.log(frame)
        tries.append((kept, now, alpha))
        if kept:
            frame, alpha, epoch, failed = math.exp(now), alpha * 2 ** (1 / 5), epoch + 1, 0
        else:
            net.load_state_dict(before)
            alpha, failed = alpha / 2 ** (1 / 10), failed + 1
    return tries


@cache
def expected(index: int) -> tuple[tuple[bool, float, float], ...]:
    return tuple(plain_loop(cnn(index), ALPHAS[index], index, EPOCHS))


def followed(trainer: Trainer) -> list[list[tuple[bool, float, float]]]:
    """Every try of every member; for one that was taken back, the loss is the one it went back to."""
    members = len(trainer.members())
    found: list[list[tuple[bool, float, float]]] = [[] for _ in range(members)]
    assert trainer._step.attempts is not None
    while not trainer.done:
        before, alphas = trainer.tries(), trainer._step.attempts.state["alpha"].tolist()
        epochs = trainer.epochs()
        trainer.run_epoch()
        losses = trainer.log_loss().tolist()
        for member in range(members):
            if trainer.tries()[member] > before[member]:
                kept = trainer.epochs()[member] > epochs[member]
                found[member].append((kept, losses[member], alphas[member]))
    return found


def assert_like(ours: list[tuple[bool, float, float]], theirs: tuple[tuple[bool, float, float], ...]) -> None:
    assert [kept for kept, *_ in ours] == [kept for kept, *_ in theirs]
    for (kept, log_loss, alpha), (_, their_loss, their_alpha) in zip(ours, theirs, strict=True):
        assert alpha == pytest.approx(their_alpha, rel=1e-12)
        if kept:
            assert abs(log_loss - their_loss) < 1e-9


def test_the_cases_have_what_the_rule_is_about() -> None:
    runs = [expected(index) for index in range(4)]
    assert all(sum(kept for kept, *_ in run) == EPOCHS for run in runs)
    assert sum(len(run) - EPOCHS for run in runs) > 20  # epochs are taken back
    assert len({len(run) for run in runs}) > 1  # so that some wait for the others
    assert any(math.isnan(log_loss) for run in runs for _, log_loss, _ in run)  # some at once


@pytest.mark.parametrize("index", range(4))
def test_alone_it_is_the_plain_loop(index: int) -> None:
    trainer = Trainer([cnn(index)], *digits(), [how(index)])
    (ours,) = followed(trainer)
    assert_like(ours, expected(index))
    (member,) = trainer.members()
    assert (member.status, member.step, member.tries) == ("finished", EPOCHS * 10, len(ours))


def test_among_four_it_is_the_plain_loop() -> None:
    trainer = Trainer([cnn(index) for index in range(4)], *digits(), [how(index) for index in range(4)])
    for ours, index in zip(followed(trainer), range(4), strict=True):
        assert_like(ours, expected(index))
    assert trainer.epochs() == [EPOCHS] * 4
    assert trainer.tries() == [len(expected(index)) for index in range(4)]


def test_networks_on_stacked_weights_and_batches_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients written by hand, in parts, give the tries that whole batches through autograd give."""
    x, y = digits()
    nets = [mlp(inputs=64, widths=[12], outputs=10, generator=cases.generator(seed)) for seed in range(3)]
    recipes = [how(index, epochs=6) for index in range(3)]
    whole = Trainer(nets, x, y, recipes)
    runs = followed(whole)
    monkeypatch.setitem(step_module._LARGEST, "cpu", 3 * 22 * 9)
    for ours, theirs in zip(followed(Trainer(nets, x, y, recipes)), runs, strict=True):
        assert_like(ours, tuple(theirs))
    assert any(not kept for run in runs for kept, *_ in run)


@pytest.mark.parametrize("stop", [3, *(pytest.param(stop, marks=pytest.mark.full) for stop in (7, 20)), 52])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "heavy-ball"])
def test_restored_at_any_step_it_goes_on_bit_for_bit(stop: int, optimizer: str) -> None:
    """Also in the middle of a try that is taken back afterwards."""

    def make() -> Trainer:
        recipes = [
            how(index, optimizer=optimizer, epochs=4, dtype="float32", learning_rate=rate)
            for index, rate in enumerate((0.05, 0.2, 1.0))
        ]
        return Trainer([cnn(index) for index in range(3)], *digits(), recipes)

    undisturbed = make()
    first = make()
    first.advance(stop)
    second = make()
    second.restore(first.state())
    for trainer in (undisturbed, second):
        while not trainer.done:
            trainer.run_epoch()
    assert undisturbed.members() == second.members()
    assert sum(undisturbed.tries()) > sum(undisturbed.epochs())
    for name, tensor in undisturbed.state().items():
        torch.testing.assert_close(second.state()[name], tensor, rtol=0, atol=0, equal_nan=True)


def test_a_state_between_two_tries_holds_the_weights_once() -> None:
    trainer = Trainer([cnn(0)], *digits(), [how(0, epochs=4, learning_rate=0.05)])
    trainer.run_epoch()
    between = trainer.state()
    trainer.advance(1)
    within = trainer.state()
    copies = {name for name in within if name.startswith("before.")}
    assert copies == set(within) - set(between)
    assert {name.removeprefix("before.") for name in copies} >= {
        name for name in within if "weights" in name
    } - copies


def test_what_was_taken_back_is_all_put_back() -> None:
    """Weights, buffers and the optimiser's memory, of the networks that go back and of no other."""
    rule = LossBased(frame_at_start=10.0)
    recipes = [
        recipe(optimizer="momentum", learning_rate=rate, rate=rule, seed=seed, epochs=9)
        for seed, rate in enumerate((0.01, 1e4))
    ]
    trainer = Trainer([cases.convolutional(seed) for seed in range(2)], *data(), recipes)
    before = trainer.state()
    trainer.run_epoch()
    after = trainer.state()
    assert trainer.epochs() == [1, 0]
    moved = [name for name in before if name.startswith(("weights.", "moments.", "buffers."))]
    assert any(name.startswith("moments.") for name in moved)
    assert any(name.startswith("buffers.") for name in moved)
    for name in moved:
        assert torch.equal(before[name][1], after[name][1]), name
        if not name.startswith("buffers."):
            assert not torch.equal(before[name][0], after[name][0]), name


def test_a_redone_epoch_has_another_order_and_the_first_try_the_usual_one() -> None:
    first, again = (epoch_order(50, seeds=[3], epoch=2, attempt=attempt) for attempt in (0, 1))
    assert torch.equal(first, epoch_order(50, seeds=[3], epoch=2))
    assert not torch.equal(first, again)
    assert sorted(again.tolist()) == list(range(50))


def test_a_finished_network_waits_and_does_not_move() -> None:
    trainer = Trainer(
        [cnn(0), cnn(2)],
        *digits(),
        [how(0, epochs=2, optimizer="adam", learning_rate=0.01), how(2, epochs=2, optimizer="adam")],
    )
    while 2 not in trainer.epochs():
        trainer.run_epoch()
    waits = trainer.epochs().index(2)
    assert trainer.epochs() != [2, 2]
    there = {name: weight.clone() for name, weight in weights(trainer.network(waits)).items()}
    tries = trainer.tries()[waits]
    while not trainer.done:
        trainer.run_epoch()
    assert all(torch.equal(weight, there[name]) for name, weight in weights(trainer.network(waits)).items())
    assert trainer.tries()[waits] == tries
    assert trainer.tries()[1 - waits] > tries


def test_losses_far_below_the_smallest_float() -> None:
    """η = α/frame passes the largest float, and the loss goes on falling."""
    net = mlp(inputs=1, widths=[], outputs=1, generator=cases.generator(0))
    net.get_parameter("output.weight").data.fill_(900.0)
    x, y = torch.tensor([[1.0], [-1.0]]), torch.tensor([1, -1])
    rule = LossBased(frame_at_start=1e-300)
    trainer = Trainer(
        [net], x, y, [recipe(optimizer="gd", loss="logistic", rate=rule, learning_rate=1e3, epochs=60)]
    )
    while not trainer.done:
        trainer.run_epoch()
    assert trainer.taken()[0] is not None
    assert trainer.log_loss().item() < -2028  # 10^-881
    assert trainer.taken()[0].rate == math.inf  # type: ignore[union-attr]
    assert trainer.told()[0]["log10_rate"] > 800


def test_a_network_that_never_gets_on_is_given_up() -> None:
    """At a batch beyond the limit before any step, no rate is small enough."""
    x, y = data()
    rule = LossBased(ceiling=1e-3, patience=5)
    trainer = Trainer([cases.shallow(0)], x, y, [recipe(rate=rule)])
    while not trainer.done:
        trainer.run_epoch()
    (member,) = trainer.members()
    assert (member.status, member.step, member.tries) == ("diverged", 0, 5)
    assert str(member.reason).startswith(
        "5 tries of epoch 1 in a row did not keep the training loss from rising: another learning rate, or more steps "
        "in an epoch, may help."
    )
    assert trainer.running() == [False]


def test_a_network_that_begins_above_the_first_frame_is_told_of_it() -> None:
    x, y = data()
    start = cases.shallow(0)
    with torch.no_grad():
        for parameter in start.parameters():
            parameter.mul_(30)

    def trained(rule: LossBased) -> Trainer:
        trainer = Trainer([start], x, y, [recipe(rate=rule, epochs=2)])
        trainer.advance(10**4)
        return trainer

    given_up = trained(LossBased(patience=5))
    begin = math.log10(math.e) * float(given_up.log_loss())
    (member,) = given_up.members()
    assert f"Its loss was 10^{begin:.3g} before the first epoch" in str(member.reason)
    assert "frame_at_start" in str(member.reason)
    assert trained(LossBased(patience=100, frame_at_start=2 * 10**begin)).epochs() == [2]


def test_a_hopeless_try_ends_at_once_and_counts_as_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = data()
    taken = []
    original = step_module.Step.take

    def counting(self: step_module.Step, *batch: Tensor) -> None:
        taken.append(1)
        original(self, *batch)

    monkeypatch.setattr(step_module.Step, "take", counting)
    rule = LossBased(ceiling=1e-3, patience=3)
    trainer = Trainer([cases.shallow(0)] * 2, x, y, [recipe(rate=rule), recipe(rate=rule, seed=1)])
    trainer.run_epoch()
    assert (trainer.step, len(taken)) == (trainer.steps_per_epoch, 1)
    assert trainer.tries() == [1, 1]


def test_a_start_that_is_not_finite_diverges_at_once() -> None:
    broken = cases.shallow(0)
    broken.get_parameter("hidden.weight").data[0, 0] = math.nan
    trainer = Trainer([broken, cases.shallow(1)], *data(), [recipe(rate=LossBased(frame_at_start=10.0))] * 2)
    while not trainer.done:
        trainer.run_epoch()
    states = trainer.members()
    assert [state.status for state in states] == ["diverged", "finished"]
    assert states[0].step == 0


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_replayed_step_is_the_same(shuffle: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What surrounds a CUDA graph, on any machine: tensors that the graph reads stay where they are."""

    def make() -> Trainer:
        recipes = [how(index, epochs=4, shuffle=shuffle) for index in range(3)]
        return Trainer([cnn(index) for index in range(3)], *digits(), recipes)

    def call_again(step: Callable[[], None], *, changed: list[Tensor]) -> Callable[[], None]:
        places = [tensor.data_ptr() for tensor in changed]

        def replay() -> None:
            assert places == [tensor.data_ptr() for tensor in changed]
            step()

        return replay

    plainly, replayed = make(), make()
    monkeypatch.setattr(updates_module, "capture", call_again)
    replayed._updates.may_capture = True
    assert followed(replayed) == followed(plainly)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_makes_the_tries_of_the_plain_loop() -> None:
    recipes = [how(index) for index in range(4)]
    trainer = Trainer([cnn(index) for index in range(4)], *digits(), recipes, device="cuda")
    for ours, index in zip(followed(trainer), range(4), strict=True):
        assert_like(ours, expected(index))
    assert trainer._updates.replay is not None  # as one launch


def test_the_first_frame_is_the_loss_of_a_network_that_knows_nothing() -> None:
    x, classes = data()
    signs = 2 * (classes > 0).long() - 1
    for outputs, loss, labels, value in (
        (10, "cross-entropy", classes, math.log(10)),
        (1, "bce", (classes > 0).long(), math.log(2)),
        (1, "exponential", signs, 1.0),
    ):
        net = mlp(inputs=32, widths=[], outputs=outputs, generator=cases.generator(0))
        trainer = Trainer([net], x, labels, [recipe(loss=loss, rate=LossBased())])
        attempts = trainer._step.attempts
        assert attempts is not None
        assert attempts.state["log_frame"].exp().item() == pytest.approx(value)
    assert LossBased(frame_at_start=2.0).start(torch.ones(1), Horizon(1, 1, 0.0))[
        "log_frame"
    ].item() == pytest.approx(math.log(2))


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="divides the loss by its own frame"):
        recipe(rate=LossBased(), objective="log-loss")
    with pytest.raises(ConfigError, match="write objective = 'log-loss' too"):
        recipe(log_below=-5.0)
    with pytest.raises(StoreError, match="another training run"):
        Trainer([cases.shallow(0)], *data(), [recipe(rate=LossBased())]).restore(
            Trainer([cases.shallow(0)], *data(), [recipe()]).state()
        )
