"""Penalties in a loop of one's own: outputs of every kind, compiled networks, attention, extras."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from undertow.core.errors import ConfigError, InputError, ModelError
from undertow.training import CollaborationPenalty, EnergyPenalty, JacobianPenalty
from undertow.training.penalties import Penalty

PENALTIES = [
    JacobianPenalty(1.0, projections="all"),
    EnergyPenalty(1.0, steps=30),
    CollaborationPenalty("act", 1.0, steps=30),
]


class Net(nn.Module):
    def __init__(self, kind: str = "tensor") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.kind = kind
        self.first, self.act, self.last = nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)

    def forward(self, x: Tensor, scale: Tensor | None = None) -> Any:
        scores = self.last(self.act(self.first(x)))
        scores = scores if scale is None else scores * scale
        outputs = {"dictionary": {"aux": x, "logits": scores}, "tuple": (scores, x)}
        return outputs.get(self.kind, scores)


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 8)
        self.act = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.last = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.act(self.first(x)).mean(1))  # type: ignore[no-any-return]


X = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))


def taken(penalty: Penalty, net: nn.Module, x: Tensor, **options: Any) -> tuple[float, list[Tensor]]:
    value = penalty(net, x, generator=torch.Generator().manual_seed(2), **options)
    value.backward()
    found = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    return value.item(), found


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda each: each.name)
@pytest.mark.parametrize("kind", ["dictionary", "tuple", "compiled", "compiled in place", "parallel"])
def test_it_is_that_of_the_plain_network(kind: str, penalty: Penalty) -> None:
    expected, gradients = taken(penalty, Net(), X)
    net: Any = Net(kind)
    if kind == "compiled":
        net = torch.compile(net, backend="aot_eager")
    elif kind == "compiled in place":
        net.compile(backend="aot_eager")
        net(X)
    elif kind == "parallel":
        net = nn.DataParallel(net)
    found, own = taken(penalty, net, X)
    assert found == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(own, gradients)


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda each: each.name)
def test_attention_has_the_gradient_of_finite_differences(penalty: Penalty) -> None:
    net, x = Attending().double(), torch.randn(2, 3, 4, dtype=torch.float64)
    _, gradients = taken(penalty, net, x)
    shift = [torch.randn_like(p) for p in net.parameters()]
    ends = []
    for sign in (1e-5, -1e-5):
        moved = Attending().double()
        moved.load_state_dict(net.state_dict())
        with torch.no_grad():
            for p, s in zip(moved.parameters(), shift, strict=True):
                p.add_(s, alpha=sign)
        ends.append(taken(penalty, moved, x)[0])
    slope = torch.stack([(g * s).sum() for g, s in zip(gradients, shift, strict=True)]).sum().item()
    # Vectors that have not settled to the last digit move with the weights, too.
    assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope, rel=1e-2)


@pytest.mark.parametrize("penalty", PENALTIES[:2], ids=lambda each: each.name)
def test_outputs_and_extras_are_those_asked_for(penalty: Penalty) -> None:
    double = {"scale": torch.full((5, 1), 2.0)}
    expected, _ = taken(penalty, Net(), X)
    assert taken(penalty, Net(), X, extras=double)[0] == pytest.approx(4 * expected, rel=1e-4)
    identity = penalty(Net("dictionary"), X, output="aux")
    assert identity.item() == pytest.approx(4.0 if penalty.name == "jacobian" else 1.0)
    with pytest.raises(InputError, match="one row for each"):
        penalty(Net(), X, extras={"scale": torch.ones(2, 1)})


def test_what_cannot_be_penalised_is_said_in_a_sentence() -> None:
    penalty = JacobianPenalty(1.0)
    with pytest.raises(ConfigError, match="weight = -1"):
        JacobianPenalty(-1.0)
    with pytest.raises(ConfigError, match="seam is missing"):
        CollaborationPenalty(weight=1.0)
    words = nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(6, 1))
    with pytest.raises(InputError, match="token ids"):
        penalty(words, torch.tensor([[0, 1, 2]]))
    with pytest.raises(ModelError, match="cannot take x of shape"):
        penalty(Net(), torch.ones(2, 7))
    with pytest.raises(InputError, match=r"x must be a torch\.Tensor"):
        penalty(Net(), [1.0])  # type: ignore[arg-type]
