"""The row space keeps every L2 radius, lines are crossed where they should be, and flat ties are errors."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import undertow as ut
from undertow.adversary.attacks.line import first_crossing
from undertow.adversary.exact.row_space import in_row_space
from undertow.core.errors import ModelError


def network(d: int, m: int, outputs: int, seed: int, *, bias: bool = True) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(d, m, bias=bias, dtype=torch.float64),
            nn.ReLU(),
            nn.Linear(m, outputs, dtype=torch.float64),
        ).requires_grad_(False)


@pytest.mark.parametrize(("outputs", "bias"), [(1, True), (1, False), (3, True)])
def test_radii_are_those_of_the_whole_space(outputs: int, bias: bool) -> None:
    net = network(30, 4, outputs, 0, bias=bias)
    x = torch.randn(6, 30, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scores = net(x)
    y = (scores[:, 0] > 0).long() if outputs == 1 else scores.argmax(1)
    small, points = in_row_space(net, x)
    torch.testing.assert_close(small(points), scores)
    whole = ut.robustness(net, x, y, exact=True, seconds=20, shorten=False)
    reduced = ut.robustness(small, points, y, exact=True, seconds=20, shorten=False)
    torch.testing.assert_close(reduced.exact, whole.exact, rtol=1e-7, atol=1e-9)


def test_only_a_first_linear_layer_has_a_row_space() -> None:
    with pytest.raises(ModelError, match="first linear layer"):
        in_row_space(nn.Sequential(nn.Conv1d(1, 1, 3), nn.Flatten(), nn.Linear(4, 1)), torch.ones(1, 1, 6))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), m=st.integers(1, 6))
def test_the_first_crossing_is_the_first(seed: int, m: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    hidden, slopes, head = (torch.randn(m, generator=draw, dtype=torch.float64) for _ in range(3))
    found = float(first_crossing(hidden, slopes, head))

    def value(t: torch.Tensor) -> torch.Tensor:
        return ((hidden + t[:, None] * slopes).relu() * head).sum(1)

    start = float(value(torch.zeros(1).double()))
    if start <= 0:
        assert found == 0
        return
    before = torch.linspace(0, min(found, 1e4), 2001, dtype=torch.float64)[:-1]
    assert bool((value(before) > -1e-9).all()), "no crossing before the first one"
    if math.isfinite(found):
        assert abs(float(value(torch.tensor([found], dtype=torch.float64)))) < 1e-9 * (1 + found)
    else:
        assert bool((value(torch.logspace(0, 8, 50).double()) > 0).all())


def test_a_flat_tie_is_a_crossing() -> None:
    # on at 1, off from t = 0.3 on; the opponent comes on at t = 0.7 only
    hidden, slopes = torch.tensor([0.3, -0.7]).double(), torch.tensor([-1.0, 1.0]).double()
    assert float(first_crossing(hidden, slopes, torch.tensor([1.0, -1.0]).double())) == pytest.approx(0.3)


def test_attacks_see_the_tie_where_every_neuron_is_off() -> None:
    # f = ReLU(x₁ − 1) − ReLU(−x₁ − 1): between −1 and 1 all is off and f = 0, an error, and flat
    hidden, output = nn.Linear(1, 2).double(), nn.Linear(2, 1, bias=False).double()
    net = nn.Sequential(hidden, nn.ReLU(), output)
    with torch.no_grad():
        hidden.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        hidden.bias.fill_(-1.0)
        output.weight.copy_(torch.tensor([[1.0, -1.0]]))
    x, y = torch.tensor([[3.0], [-2.5]]).double(), torch.tensor([1, 0])
    found = ut.robustness(net, x, y, exact=True)
    torch.testing.assert_close(found.exact, torch.tensor([2.0, 1.5]).double())
    torch.testing.assert_close(found.attacked, found.exact, rtol=1e-3, atol=0)
    quick = ut.robustness(net, x, y, exact=False, shorten=False)
    assert bool((quick.attacked >= found.exact - 1e-9).all() and quick.attacked.isfinite().all())
