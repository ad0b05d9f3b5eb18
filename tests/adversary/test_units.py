"""Attacks do not know the units of the inputs, the scale of the logits, or what is added to all of them."""

from __future__ import annotations

import copy
import math
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from tests.adversary.cases import decisions, digits, mlp, points
from undertow.adversary import adversarial_risk, robust_accuracy
from undertow.adversary.accuracy_result import RobustAccuracyResult
from undertow.adversary.closest import closest_examples

ATTACKS = [
    "apgd-ce",
    "apgd-dlr",
    "apgd-t",
    "fab-t",
    "line",
    "square",
    "pgd",
    "pgd-once",
    "cw",
    "deepfool",
    "fast",
]
TINY, HUGE = 2.0**-30, 2.0**30  # powers of two round nothing: what differs then is no matter of chance
CASES = [
    ("inputs", TINY),
    pytest.param("inputs", HUGE, marks=pytest.mark.full),
    pytest.param("logits", TINY, marks=pytest.mark.full),
    ("logits", HUGE),
    ("constant", 1e3),
]


def changed(net: nn.Sequential, kind: str, size: float) -> nn.Sequential:
    """The same decisions for inputs in units of ``size``, with logits ``size`` times as large, or moved by it."""
    net = copy.deepcopy(net)
    first, last = net[0], net[-1]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        if kind == "inputs":
            first.weight.div_(size)
        elif kind == "logits":
            last.weight.mul_(size)
            last.bias.mul_(size)
        else:
            last.bias.add_(size)
    return net


def case() -> tuple[nn.Sequential, Tensor, Tensor]:
    net, x = mlp(3, inputs=5, width=12, outputs=4), points(3, 24, 5)
    return net, x, decisions(net, x)


@cache
def _plain(attack: str, box: tuple[float, float] | None) -> RobustAccuracyResult:
    """In units of one, for all cases that are compared with it; as few queries of square as these take."""
    net, x, y = case()
    return robust_accuracy(net, x, y, eps=0.2, attack=attack, bounds=box)


@pytest.mark.parametrize(("kind", "size"), CASES)
@pytest.mark.parametrize("attack", ATTACKS)
def test_robust_accuracy_and_distances(
    attack: str, kind: str, size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("undertow.adversary.attacks.square.QUERIES", 40)
    net, x, y = case()
    unit = size if kind == "inputs" else 1.0
    box = (-1.0, 1.0) if size < 1 else None
    scaled = None if box is None else (-unit, unit)
    plain = _plain(attack, box)
    other = robust_accuracy(
        changed(net, kind, size), unit * x, y, eps=0.2 * unit, attack=attack, bounds=scaled
    )
    assert 0 < float(plain.value) < float(plain.clean)
    assert other.value == plain.value
    assert torch.allclose(other.distance / unit, plain.distance, rtol=1e-5)


@cache
def _plain_of_digits(attack: str, norm: float, eps: float) -> RobustAccuracyResult:
    net, x, y = digits()
    return robust_accuracy(net, x[:40], y[:40], eps=eps, norm=norm, attack=attack)


@pytest.mark.parametrize(
    ("kind", "size"), [("inputs", 1e-9), ("inputs", 1e9), ("logits", 1e-9), ("logits", 1e9)]
)
@pytest.mark.parametrize("norm", [2, math.inf])
@pytest.mark.parametrize("attack", ["apgd-ce", "apgd-t", "fab-t", "deepfool", "fast"])
def test_a_confident_network_in_float32(attack: str, norm: float, kind: str, size: float) -> None:
    """Its softmax is 1 to the last bit: the plain cross-entropy has no slope there."""
    net, x, y = digits()
    x, y = x[:40], y[:40]
    unit, eps = size if kind == "inputs" else 1.0, 0.3 if norm == 2 else 0.05
    plain = _plain_of_digits(attack, norm, eps)
    other = robust_accuracy(changed(net, kind, size), unit * x, y, eps=unit * eps, norm=norm, attack=attack)
    assert 0.05 < float(plain.value) < float(plain.clean) - 0.05
    assert abs(float(other.value) - float(plain.value)) <= 1 / 40 + 1e-9
    both = plain.distance.isfinite() & other.distance.isfinite() & (plain.distance > 0)
    ratio = other.distance[both] / unit / plain.distance[both]
    assert float((ratio - 1).abs().median()) < 1e-3


@pytest.mark.parametrize("norm", [2, math.inf])
@pytest.mark.parametrize("unit", [1e-9, pytest.param(1e9, marks=pytest.mark.full)])
def test_risk_and_closest_examples(unit: float, norm: float) -> None:
    net, x, y = case()
    other = changed(net, "inputs", unit)
    for loss in ("cross-entropy", "exponential", "zero-one"):
        plain, scaled = (
            adversarial_risk(each, size * x, y, eps=[0.1 * size, 0.5 * size], norm=norm, loss=loss)
            for each, size in ((net, 1.0), (other, unit))
        )
        assert torch.allclose(scaled.losses, plain.losses, rtol=1e-6)
    near, far = (
        closest_examples(each, size * x, y, norm=norm)[0] / size for each, size in ((net, 1.0), (other, unit))
    )
    assert torch.allclose(near, far, rtol=1e-4)


@pytest.mark.parametrize(("kind", "size"), [("logits", 1e-9), ("logits", 1e9), ("constant", 1e3)])
def test_the_worst_margin_scales_with_the_logits(kind: str, size: float) -> None:
    net, x, y = case()

    def lost(scores: Tensor, labels: Tensor) -> Tensor:
        index = labels.unsqueeze(-1)
        return scores.scatter(-1, index, -math.inf).amax(-1) - scores.gather(-1, index).squeeze(-1)

    plain = adversarial_risk(net, x, y, eps=0.3, loss=lost)
    other = adversarial_risk(changed(net, kind, size), x, y, eps=0.3, loss=lost)
    assert torch.allclose(other.losses / (size if kind == "logits" else 1.0), plain.losses, rtol=1e-6)


def test_one_sample_in_other_units_does_not_shrink_the_balls_of_the_rest() -> None:
    """A ball is made smaller by the rounding of its own sample, not by that of the largest one."""
    line = nn.Sequential(nn.Linear(2, 1, bias=False)).requires_grad_(False)
    line[0].weight.copy_(torch.tensor([[1.0, 0.0]]))  # type: ignore[operator]
    x = torch.tensor([[1e-3, 0.0], [0.5, 1e9]])
    found = robust_accuracy(line, x, torch.tensor([1, 1]), eps=2e-3, attack="apgd-ce", certify=False)
    assert float(found.distance[0]) <= 2e-3


def test_the_cross_entropy_does_not_saturate_far_from_a_sample_of_small_margin() -> None:
    """Divided by a margin of 1e-4, scores at a distance are 1e5: no slope was left in float64, and none in float32."""
    net = nn.Sequential(nn.Linear(1, 3)).double().requires_grad_(False)
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0], [-1.0], [-2.0]]))  # type: ignore[operator]
        net[0].bias.copy_(torch.tensor([0.0, -1e-4, -1.0]))  # type: ignore[operator]
    x, y = torch.zeros(40, 1).double(), torch.zeros(40, dtype=torch.long)
    found = robust_accuracy(net, x, y, eps=1.0, attack="apgd-ce", certify=False)
    assert found.value == 0.0
