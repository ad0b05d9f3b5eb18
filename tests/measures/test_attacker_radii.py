"""Radii for three attackers: known for linear networks, in order for others."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import undertow as ut
from undertow.measures.attacker_radii import ATTACKERS, AttackerRadii
from undertow.measures.exact_radii import ExactRadii


def _points(classes: int, unit: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(6, 4, generator=draw, dtype=torch.float64) * unit
    return x, torch.randint(0, classes, (6,), generator=draw)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_linear_networks_radii_are_those_that_the_bracket_closes_on(outputs: int, unit: float) -> None:
    torch.manual_seed(0)
    net = nn.Linear(4, outputs, bias=False).double().eval()
    x, y = _points(max(outputs, 2), unit)
    told = {key: value for key, value, _ in AttackerRadii()(net, x, y)}
    assert set(told) == {f"{attacker}:exact" for attacker in ATTACKERS}
    for attacker, norm in ATTACKERS.items():
        found = ut.robustness(net, x, y, norm=norm)
        assert told[f"{attacker}:exact"] == pytest.approx(float(found.certified.mean()), rel=1e-6)
        assert told[f"{attacker}:exact"] == pytest.approx(float(found.attacked.mean()), rel=1e-4)


def test_certified_exact_and_attacked_radii_of_a_narrow_network_are_in_order() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1)).double().eval()
    x, _ = _points(2)
    y = (net(x)[:, 0] > 0).long()
    solved = {key: value for key, value, _ in ExactRadii()(net, x, y)}
    bracket = {key: value for key, value, _ in AttackerRadii()(net, x, y)}
    assert bracket["proved"] == 1.0
    for attacker in ATTACKERS:
        exact = solved[f"{attacker}:exact"]
        assert 0 < bracket[f"{attacker}:certified"] <= exact <= bracket[f"{attacker}:attacked"] * (1 + 1e-9)
