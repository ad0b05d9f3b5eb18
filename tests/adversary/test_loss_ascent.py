"""PGD on the training loss, and closest examples: linear networks, where both answers are known."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from undertow.adversary.attacks.loss_ascent import ascend_loss
from undertow.adversary.closest import closest_examples


def line(scale: float = 1.0) -> nn.Linear:
    net = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        net.weight.copy_(scale * torch.tensor([[0.6, 0.8]]))
    return net


@pytest.mark.parametrize("scale", [1e-3, 1.0, 2e3])
def test_the_ascent_goes_downhill_on_the_margin_whatever_the_logits_are(scale: float) -> None:
    x, y = torch.tensor([[1.0, 2.0], [-2.0, -1.0]]), torch.tensor([1, 0])
    moved = ascend_loss(line(scale), x, y, loss="bce", eps=0.5, seed=3)
    lowered = (x - moved) @ torch.tensor([0.6, 0.8]) * torch.tensor([1.0, -1.0])
    assert float(lowered.min()) > 0.98 * 0.5
    assert float((moved - x).norm(dim=1).max()) <= 0.5 + 1e-6


def test_ball_and_box_are_kept() -> None:
    x = torch.rand(20, 2, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
    moved = ascend_loss(net, x, torch.arange(20) % 3, loss="cross-entropy", eps=0.3, bounds=(0.0, 1.0))
    assert float((moved - x).norm(dim=1).max()) <= 0.3 + 1e-6
    assert float(moved.min()) >= 0
    assert float(moved.max()) <= 1
    with torch.no_grad():
        loss = nn.functional.cross_entropy
        assert loss(net(moved), torch.arange(20) % 3) > loss(net(x), torch.arange(20) % 3)
    assert torch.equal(
        moved, ascend_loss(net, x, torch.arange(20) % 3, loss="cross-entropy", eps=0.3, bounds=(0.0, 1.0))
    )


def test_closest_examples_of_a_line_are_its_projections() -> None:
    x, y = torch.tensor([[1.0, 2.0], [-2.0, -1.0], [1.0, 1.0]]), torch.tensor([1, 0, 0])
    distance, examples = closest_examples(line(), x, y)
    signed = x @ torch.tensor([0.6, 0.8])
    expected = torch.tensor([float(signed[0]), -float(signed[1]), 0.0])  # the last is an error already
    assert torch.allclose(distance.float(), expected, atol=1e-4)
    assert torch.allclose(examples[:2], (x - signed[:, None] * torch.tensor([0.6, 0.8]))[:2], atol=1e-3)
    both, _ = closest_examples([line(), line(5.0)], x, y)
    assert torch.allclose(both[0], both[1], atol=1e-4)
