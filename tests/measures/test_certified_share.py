"""Certified accuracy as a measure: radii of a linear network, and never above what attacks leave."""

from __future__ import annotations

import torch
from torch import nn

from tests.training.cases import data, dense
from undertow.measures.attacker_radii import linear_radii
from undertow.measures.certified_share import CertifiedShare
from undertow.measures.robust_accuracy import RobustAccuracy


def test_a_linear_network_is_certified_up_to_its_radii() -> None:
    net = nn.Linear(5, 3).requires_grad_(False)
    x, y = torch.randn(60, 5, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3
    net.bias.zero_()
    radii = linear_radii(net.weight, x, y, attacker="2")
    eps = (0.05, 0.2, 0.7)
    found = [share for _, share, _ in CertifiedShare(eps=eps)(net, x, y)]
    assert found == [float((radii > each).double().mean()) for each in eps]


def test_it_is_below_what_attacks_leave_and_above_nothing() -> None:
    x, _ = data(30)
    nets = [dense("relu")(seed) for seed in range(2)]
    labels = nets[0](x).argmax(1)  # all decided rightly by the first network
    for net, certified in zip(nets, CertifiedShare(eps=(0.01, 0.3)).batched(nets, x, labels), strict=True):
        attacked = list(RobustAccuracy(eps=(0.01, 0.3), attack="pgd")(net, x, labels))
        for (_, low, _), (_, high, _) in zip(certified, attacked, strict=True):
            assert low <= high
    first = [share for _, share, _ in CertifiedShare(eps=(0.01, 0.3))(nets[0], x, labels)]
    assert first[0] > 0.5 >= first[1]
    boxed = CertifiedShare(eps=(0.3,), box=(float(x.min()), float(x.max())), norm="inf")
    assert [key for key, _, _ in boxed(nets[0], x, labels)] == ["0.3"]
