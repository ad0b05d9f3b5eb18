"""The loss-based rule far below the smallest float: the tries of a plain loop in float64 that follows log L."""

from __future__ import annotations

import copy
import math
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.training.test_loss_based import followed
from undertow.training import LossBased, Recipe, Trainer
from undertow.training import loss_of_try as few_samples

CLASSES, SAMPLES, BATCH, EPOCHS = 4, 50, 7, 12  # the last batch of an epoch has one sample
DEPTHS, ALPHAS = (0.0, 300.0, 2000.0), (0.1, 1.0, 0.5)


@cache
def clusters() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(SAMPLES) % CLASSES
    centres = 2 * torch.randn(CLASSES, 6, generator=draw, dtype=torch.float64)
    return centres[y] + 0.7 * torch.randn(SAMPLES, 6, generator=draw, dtype=torch.float64), y


def log_losses(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """log(−log softmax_y) of each sample; −log softmax_y is Σ e^(s_j − s_y) to rounding where that is below e^-40."""
    scores = net(x)
    rivals = (scores - scores.gather(1, y[:, None])).masked_fill(
        functional.one_hot(y, CLASSES).bool(), -math.inf
    )
    v = rivals.logsumexp(1)
    return torch.where(v < -40, v, functional.softplus(v.clamp(min=-40)).log())


def log_mean(each: Tensor) -> Tensor:
    return each.logsumexp(0) - math.log(len(each))


@cache
def start(index: int) -> nn.Module:
    """At a loss of about 10^-depth: a few hundred plain steps, and then larger weights."""
    torch.manual_seed(index)
    net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, CLASSES, bias=False)).double()
    if not DEPTHS[index]:
        return net
    x, y = clusters()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(400):
        optimizer.zero_grad()
        functional.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    smallest = -float(log_losses(net, x, y).detach().max())
    assert smallest > 0
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(math.sqrt(DEPTHS[index] * math.log(10) / smallest))
    return net


@cache
def plain_loop(index: int) -> tuple[tuple[bool, float, float], ...]:
    """Every try: whether it was kept, log L after it, α before it. Steps are −α (L_batch/frame) ∇log L_batch."""
    net, (x, y), alpha = copy.deepcopy(start(index)), clusters(), ALPHAS[index]
    frame, epoch, failed = math.log(math.log(CLASSES)), 0, 0
    tries = []
    while epoch < EPOCHS:
        before = copy.deepcopy(net.state_dict())
        entropy = (index, epoch, failed) if failed else (index, epoch)
        mixed = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])
        now = 0.0
        for rows in torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(mixed >> 1)).split(BATCH):
            batch = log_mean(log_losses(net, x[rows], y[rows]))
            share = batch.item() - frame
            if not share <= math.log(600):
                now = math.nan
                break
            slopes = torch.autograd.grad(batch, list(net.parameters()))
            with torch.no_grad():
                for parameter, slope in zip(net.parameters(), slopes, strict=True):
                    parameter.sub_(alpha * math.exp(share) * slope)
        now = now or log_mean(log_losses(net, x, y)).item()
        kept = now <= frame
        tries.append((kept, now, alpha))
        if kept:
            frame, alpha, epoch, failed = now, alpha * 2 ** (1 / 5), epoch + 1, 0
        else:
            net.load_state_dict(before)
            alpha, failed = alpha / 2 ** (1 / 10), failed + 1
    return tuple(tries)


def recipe(index: int) -> Recipe:
    return Recipe(
        optimizer="sgd",
        learning_rate=ALPHAS[index],
        batch_size=BATCH,
        epochs=EPOCHS,
        loss="cross-entropy",
        dtype="float64",
        seed=index,
        rate=LossBased(),
    )


def assert_same(ours: list[tuple[bool, float, float]], index: int) -> None:
    wanted = plain_loop(index)
    assert [kept for kept, _, _ in ours] == [kept for kept, _, _ in wanted]
    assert [alpha for _, _, alpha in ours] == pytest.approx([alpha for _, _, alpha in wanted], rel=1e-12)
    pairs = zip(ours, wanted, strict=True)
    losses = [(mine, theirs) for (kept, mine, _), (_, theirs, _) in pairs if kept]
    assert [mine for mine, _ in losses] == pytest.approx([theirs for _, theirs in losses], rel=1e-6)


def test_members_at_different_depths_each_follow_the_plain_loop() -> None:
    members = range(len(DEPTHS))
    found = followed(Trainer([start(m) for m in members], *clusters(), [recipe(m) for m in members]))
    for index, ours in enumerate(found):
        assert_same(ours, index)
    tries = [plain_loop(index) for index in members]
    assert all(sum(not kept for kept, _, _ in each) > 10 for each in tries)
    assert any(math.isnan(log_loss) for each in tries for _, log_loss, _ in each)
    assert [each[-1][1] < -depth * math.log(10) for each, depth in zip(tries, DEPTHS, strict=True)] == [
        True
    ] * 3


@pytest.mark.parametrize("index", range(len(DEPTHS)))
def test_so_it_does_alone_where_a_few_samples_tell_what_is_lost(
    index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(few_samples, "_FEWEST", 1)
    trainer = Trainer([start(index)], *clusters(), [recipe(index)])
    assert trainer._step._loss_of_try is not None
    assert_same(followed(trainer)[0], index)
