"""Robust accuracy depends on the samples, not on their order, nor on how they are cut into chunks."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from tests.adversary.cases import decisions, digits, mlp, points
from undertow.adversary import robust_accuracy
from undertow.adversary.attacks.canaries import draw, hidden_at_most


class RoundsEightsAndNines(nn.Module):
    """A network that rounds its inputs only where it predicts 8 or 9: no gradient shows a way out of these."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        scores = self.net(x)
        coarse = self.net((16 * x).round() / 16)  # the pixels of the data are sixteenths
        return torch.where((scores.argmax(-1) >= 8).unsqueeze(-1), coarse, scores)


def test_a_network_that_hides_two_classes_is_found_out_in_data_sorted_by_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("undertow.adversary.attacks.square.QUERIES", 800)
    net, x, y = digits()
    x, y = x[:150], y[:150]
    hiding = RoundsEightsAndNines(net)
    options = {"eps": 0.1, "norm": math.inf, "attack": ["apgd-ce", "apgd-t", "square"], "bounds": (0.0, 1.0)}
    order = y.sort(stable=True).indices
    found = robust_accuracy(hiding, x[order], y[order], **options)  # type: ignore[arg-type]
    honest = robust_accuracy(net, x, y, **options)  # type: ignore[arg-type]
    assert found.broken_by["square"][0] > 0.05 * len(y)
    assert any("gradients of this network may mislead" in note for note in found.notes)
    assert float(found.value) <= float(honest.value) + 0.05
    again = robust_accuracy(hiding, x, y, **options)  # type: ignore[arg-type]
    assert again.value == found.value


@pytest.mark.parametrize(
    ("attack", "norm"),
    [
        pytest.param(attack, norm, marks=() if (norm == 2) == (place % 2 == 0) else pytest.mark.full)
        for place, attack in enumerate(
            ("apgd-ce", "apgd-dlr", "apgd-t", "fab-t", "line", "square", "pgd", "deepfool", "fast")
        )
        for norm in (2, math.inf)
    ],
)
def test_neither_order_nor_chunks_matter(attack: str, norm: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64, where products of other batch sizes round alike to 15 digits."""
    monkeypatch.setattr("undertow.adversary.attacks.square.QUERIES", 60)
    net, x = mlp(3, inputs=5, width=12, outputs=4), points(3, 40, 5)
    y = decisions(net, x)
    y[::7] = (y[::7] + 1) % 4
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    eps = 0.15 if norm == 2 else 0.08
    plain = robust_accuracy(net, x, y, eps=eps, norm=norm, attack=attack, certify=False)
    moved = robust_accuracy(net, x[order], y[order], eps=eps, norm=norm, attack=attack, certify=False)
    cuts = [
        robust_accuracy(net, x, y, eps=eps, norm=norm, attack=attack, certify=False, chunk=chunk)
        for chunk in ((7, 17) if attack == "square" else (7,))
    ]
    assert 0 < float(plain.value) < float(plain.clean)
    assert moved.value == plain.value
    assert moved.broken_by == plain.broken_by
    assert torch.allclose(moved.distance, plain.distance[order], rtol=1e-6)
    for cut in cuts:
        assert cut.value == plain.value
        assert cut.broken_by == plain.broken_by
        assert torch.allclose(cut.distance, plain.distance, rtol=1e-6)


def test_square_draws_every_class_and_says_what_it_may_have_missed() -> None:
    classes = torch.tensor([0] * 50 + [1] * 30 + [2] * 3 + [3] * 40)
    todo = torch.ones(len(classes), dtype=torch.bool)
    todo[classes == 3] = False
    priority = torch.randperm(len(classes), generator=torch.Generator().manual_seed(0))
    drawn = draw(todo, classes, priority, 24)
    assert int(drawn.sum()) == 24
    assert not bool((drawn & ~todo).any())
    assert classes[drawn].bincount(minlength=4).tolist() == pytest.approx([14, 9, 1, 0], abs=1)
    net, x, y = digits()
    tame = robust_accuracy(net, x[:90], y[:90], eps=0.01, attack="square", certify=False, bounds=(0.0, 1.0))
    assert any("wherever they are, one would have shown with 95 %" in note for note in tame.notes)
    few = robust_accuracy(net, x[:20], y[:20], eps=0.01, attack="square", certify=False, bounds=(0.0, 1.0))
    assert few.notes == ()  # all were tried


@pytest.mark.parametrize(
    ("sizes", "drawn"), [([9, 7], [3, 2]), ([6, 5, 4], [2, 1, 1]), ([8], [8]), ([5, 5], [2, 0])]
)
def test_what_could_be_hidden_against_enumeration(sizes: list[int], drawn: list[int]) -> None:
    """Over every way to share the breakable samples among the classes, the likeliest to be missed."""
    most = 0
    for hidden in itertools.product(*(range(size + 1) for size in sizes)):
        chance = math.prod(
            math.comb(n - h, m) / math.comb(n, m) for n, h, m in zip(sizes, hidden, drawn, strict=True)
        )
        if chance >= 0.05:
            most = max(most, sum(hidden))
    assert hidden_at_most(sizes, drawn) == most
