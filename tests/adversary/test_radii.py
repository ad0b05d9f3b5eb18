"""Radii and bounds as users write them: every function takes the same, and refuses the same in a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.adversary import adversarial_risk, robust_curve
from undertow.adversary.certificates.lipschitz import lipschitz
from undertow.core.errors import InputError

Taking = Callable[[nn.Module, Tensor, Tensor, Any], object]

TAKING: dict[str, Taking] = {
    "robust accuracy": lambda net, x, y, eps: ut.robust_accuracy(net, x, y, eps=eps, attack="pgd").value,
    "certified accuracy": lambda net, x, y, eps: ut.certified_accuracy(net, x, y, eps=eps).value,
    "risk": lambda net, x, y, eps: adversarial_risk(net, x, y, eps=eps).value,
    "curve": lambda net, x, y, eps: robust_curve(net, x, y, eps=eps, attack="pgd").value,
}


def network() -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    x = torch.rand(4, 3)
    return net, x, net(x).argmax(1)


@pytest.mark.parametrize("name", TAKING)
def test_one_radius_and_several_may_be_of_any_kind(name: str) -> None:
    net, x, y = network()

    def taken(eps: object) -> Tensor:
        return torch.as_tensor(TAKING[name](net, x, y, eps), dtype=torch.float64)

    wanted = taken(0.125)
    for one in (np.float32(0.125), np.float64(0.125), torch.tensor(0.125), np.array(0.125)):
        assert torch.equal(taken(one), wanted)
    for several in ([0.125], (0.125,), torch.tensor([0.125]), np.array([0.125])):
        assert torch.equal(taken(several), wanted.reshape(1))


@pytest.mark.parametrize(
    "eps", [math.nan, math.inf, -1, [], [0.1, math.nan], "8/255", None, [[0.1]]], ids=str
)
@pytest.mark.parametrize("name", TAKING)
def test_what_is_no_radius_is_refused(name: str, eps: object) -> None:
    with pytest.raises(InputError, match="must be one number ≥ 0, or several"):
        TAKING[name](*network(), eps)


def test_radii_of_balls_are_one_or_one_for_each_sample() -> None:
    net, x, _ = network()
    for radius in ([0.1, 0.2], "a", None, math.nan):
        with pytest.raises(InputError, match="one number or one for each of 4 samples"):
            lipschitz(net, x, radius=radius)  # type: ignore[arg-type]


def test_bounds_are_two_numbers() -> None:
    net, x, y = network()
    wanted = ut.certified_accuracy(net, x, y, eps=0.125, bounds=(0.0, 1.0))
    for bounds in ([0, 1], np.array([0.0, 1.0]), torch.tensor([0.0, 1.0])):
        found = ut.certified_accuracy(net, x, y, eps=0.125, bounds=bounds)  # type: ignore[arg-type]
        assert torch.equal(found.proved, wanted.proved)
    each = (torch.zeros(3), torch.ones(3))
    for bounds in ((1, 0), (0, 0), (0,), (0, 1, 2), (None, 1), each, "ab", 1):  # type: ignore[assignment]
        with pytest.raises(InputError, match="two numbers that are the same for every entry"):
            ut.certified_accuracy(net, x, y, eps=0.125, bounds=bounds)  # type: ignore[arg-type]
