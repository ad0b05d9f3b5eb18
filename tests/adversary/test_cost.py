"""What attacks cost is known before, counted while they run, and told to whom it concerns."""

from __future__ import annotations

import io
import logging
import math

import pytest
import torch

from tests.adversary.cases import decisions, digits, mlp, points
from undertow.adversary import attack_cost, robust_accuracy
from undertow.adversary.attacks.attack_progress import AttackProgress
from undertow.adversary.attacks.cost import AttackCost, expected


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(
    "attack",
    ["apgd-ce", "apgd-dlr", "apgd-t", "fab-t", "line", "square", "pgd", "pgd-once", "cw", "deepfool", "fast"],
)
def test_what_an_attack_costs_where_it_breaks_nothing(
    attack: str, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forecast is the count: of forward passes by calls of the network, of backward passes by its gradient."""
    monkeypatch.setattr("undertow.adversary.attacks.square.QUERIES", 30)
    net, x = mlp(3, inputs=5, width=12, outputs=classes), points(3, 30, 5)
    y = decisions(net, x)
    asked = {"forward": 0, "backward": 0}

    def counted(batch: torch.Tensor) -> torch.Tensor:
        asked["forward"] += len(batch)
        out: torch.Tensor = net(batch)
        if out.requires_grad:
            out.register_hook(lambda _: asked.update(backward=asked["backward"] + len(batch)))  # type: ignore[no-untyped-call]
        return out

    eps = 1e-12
    forecast = attack_cost(net, x, y, eps=eps, attack=attack)
    found = robust_accuracy(counted, x, y, eps=eps, attack=attack, certify=False, progress=False)
    checks = asked["forward"] - found.passes.forward  # one sample, to learn the shape of the outputs
    assert checks == 1
    assert asked["backward"] == found.passes.backward
    clean = 2 * len(x) + len(x[:64])  # scores for the checks, again, and to begin with
    attacked = (found.passes.forward - clean, found.passes.backward)
    assert attacked[0] <= forecast.forward
    assert attacked[1] <= forecast.backward
    if attack not in (
        "deepfool",
        "fab-t",
        "line",
        "fast",
    ):  # these find what lies beyond ε, or end when they have
        assert attacked == (forecast.forward, forecast.backward)
    if attack == "fab-t":
        assert attacked == (forecast.forward, forecast.backward)
    assert attacked[0] >= 0.15 * forecast.forward


def test_a_fast_look_at_a_few_samples_says_how_much_less_it_is() -> None:
    whole = expected(["apgd-ce", "apgd-t", "fab-t", "line", "square"], 1, 4, 10)
    fast = expected(["fast"], 1, 4, 10)
    total = [sum(there + back for there, back in each.values()) for each in (whole, fast)]
    assert total[0] > 20 * total[1]
    assert (
        str(AttackCost(11836, 2000, 75.0)) == "at most 11,836 forward and 2,000 backward passes, about 75 s"
    )


def test_a_listener_is_told_and_the_most_that_is_left_shrinks() -> None:
    net, x, y = digits()
    told: list[AttackProgress] = []
    found = robust_accuracy(
        net, x[:40], y[:40], eps=[0.2, 0.4], attack=["apgd-ce", "fab-t", "apgd-t"], progress=told.append
    )
    assert {each.attack for each in told} == {"apgd-ce", "fab-t", "apgd-t"}
    assert {each.eps for each in told} == {0.2, 0.4}
    done = [each.done for each in told]
    assert done == sorted(done)
    assert all(each.done <= each.total for each in told)
    totals = [each.total for each in told]
    assert totals == sorted(totals, reverse=True)
    assert done[-1] <= found.passes.forward + found.passes.backward


def test_networks_one_after_the_other_have_one_bar() -> None:
    nets = [mlp(seed, inputs=1200, width=4) for seed in range(3)]
    x = points(0, 30, 1200)
    y = decisions(nets[0], x)
    told: list[AttackProgress] = []
    found = robust_accuracy(nets, x, y, eps=0.05, attack="pgd-once", certify=False, progress=told.append)
    done = [each.done for each in told]
    assert done == sorted(done)
    assert done[-1] <= found.passes.forward + found.passes.backward <= told[0].total


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_who_waits_is_told_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    net, x, y = digits()
    x, y = x[:10], y[:10]

    def attack(progress: bool | None) -> None:
        robust_accuracy(net, x, y, eps=0.1, attack="apgd-ce", progress=progress)

    attack(None)
    attack(False)
    assert capsys.readouterr() == ("", "")
    attack(True)
    shown = capsys.readouterr().err
    assert "at most" in shown
    assert "attack='fast' takes about" in shown
    monkeypatch.setattr("undertow.adversary.attacks.attack_progress._VERY_LONG", 0.0)
    with caplog.at_level(logging.WARNING, logger="undertow"):
        attack(False)
        assert not caplog.records
        attack(None)
    assert len(caplog.records) == 1  # one sentence, where nobody looks and it is long
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    attack(None)
    assert terminal.getvalue() == ""  # not long enough
    monkeypatch.setattr("undertow.adversary.attacks.attack_progress._LONG", 0.0)
    attack(None)
    assert "at most" in terminal.getvalue()
    assert "apgd-ce" in terminal.getvalue()


def test_timing_leaves_the_count_alone_and_a_network_that_is_always_wrong_costs_nothing() -> None:
    net, x, y = digits()
    quiet, shown = (
        robust_accuracy(net, x[:10], y[:10], eps=0.1, attack="apgd-ce", progress=progress)
        for progress in (False, True)
    )
    assert quiet.passes == shown.passes
    constant = attack_cost(lambda v: torch.zeros(len(v), 2), x, y.clamp(max=1), eps=0.1)
    assert constant == AttackCost(0, 0, 0.0)
    assert math.isfinite(attack_cost(net, x, y, eps=[0.1, 0.2]).seconds)
