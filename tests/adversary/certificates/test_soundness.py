"""No bound is contradicted by a point: a share of what ``benchmarks/certificates.py --soundness`` tries."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

from tests.adversary.certificates.architectures import ARCHITECTURES, drawn, tried, violations
from undertow.adversary.certificates import relaxations
from undertow.adversary.certificates.ball_coupling import BallCouplings
from undertow.adversary.certificates.certified import certified_radii
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.network_graph import read_graph
from undertow.adversary.certificates.refined import Effort, refined_gaps, refined_radii
from undertow.adversary.certificates.sharpened_limits import sharpened
from undertow.adversary.classifier import Classifier


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_no_difference_is_below_its_bound(name: str) -> None:
    assert violations(name, points=3, norm=2.0) == 0


@pytest.mark.parametrize("name", ["relu deep", "gelu", "max pooling", "concatenated"])
@pytest.mark.parametrize("norm", [1.0, math.inf])
def test_no_difference_is_below_its_bound_in_other_norms(name: str, norm: float) -> None:
    assert violations(name, points=4, norm=norm) == 0


@pytest.mark.parametrize("name", ["relu deep", "gelu", "softplus", "max pooling", "residual"])
@pytest.mark.parametrize("unit", [1e-9, pytest.param(1e9, marks=pytest.mark.full)])
def test_no_difference_is_below_its_bound_in_other_units(name: str, unit: float) -> None:
    assert violations(name, points=4, norm=2.0, unit=unit) == 0


@pytest.mark.parametrize("name", ["relu deep", "tanh", "residual"])
def test_no_difference_is_below_its_bound_of_a_float32_network(name: str) -> None:
    assert violations(name, points=4, norm=2.0, single=True) == 0


def test_the_check_notices_a_line_on_the_wrong_side(monkeypatch: pytest.MonkeyPatch) -> None:
    true = relaxations.lowest_offset

    def too_high(*args):  # type: ignore[no-untyped-def]
        best, at = true(*args)
        return best + 0.05, at

    monkeypatch.setattr(relaxations, "lowest_offset", too_high)
    assert violations("gelu", points=6, norm=2.0) > 0


@pytest.mark.parametrize("name", ["relu deep", "gelu", "residual"])
def test_all_limits_hold_on_the_ball(name: str) -> None:
    net = drawn(name, 1)
    x = torch.rand(4, 16, generator=torch.Generator().manual_seed(2)).double()
    graph = read_graph(Classifier(net), net, x)
    for norm in (1.0, 2.0, math.inf):
        for box in (None, (0.0, 1.0)):
            bounds = LinearBounds(graph, norm, box)
            plain = bounds.ball(x, torch.full((4,), 0.1).double())
            ball = sharpened(bounds, plain, BallCouplings(bounds))
            for index, (low, high) in ball.limits.items():  # sharper, so that those given hold as well
                assert bool(((low >= plain.limits[index][0]) & (high <= plain.limits[index][1])).all())
            for seed in range(20):
                noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)).double()
                step = 0.1 * noise / torch.linalg.vector_norm(noise, norm, dim=1, keepdim=True)
                values = graph.values(x + step if box is None else (x + step).clamp(*box))
                for index, (low, high) in ball.limits.items():
                    slack = 1e-12 * (1 + values[index].abs())
                    assert bool(((values[index] >= low - slack) & (values[index] <= high + slack)).all())


def test_limits_of_a_late_layer_are_narrower_by_an_ascent() -> None:
    torch.manual_seed(0)
    widths = (32, 64, 64, 16, 3)
    layers = [part for pair in itertools.pairwise(widths) for part in (nn.Linear(*pair), nn.ReLU())]
    net, x = nn.Sequential(*layers[:-1]).double().requires_grad_(False), torch.rand(4, 32).double()
    bounds = LinearBounds(read_graph(Classifier(net), net, x), 2.0)
    plain = bounds.ball(x, torch.full((4,), 1.0).double())
    ball, last = sharpened(bounds, plain, BallCouplings(bounds)), max(bounds.wanted)
    before, after = ((each.limits[last][1] - each.limits[last][0]).mean() for each in (plain, ball))
    assert after < 0.9 * before


class _Saturated(nn.Module):
    """A softmax, or a LayerNorm, of logits in this unit."""

    def __init__(self, unit: float, last: nn.Module) -> None:
        super().__init__()
        self.unit, self.first, self.last, self.head = unit, nn.Linear(16, 6), last, nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.last(self.unit * self.first(x)))
        return scores


@pytest.mark.parametrize("unit", [1e-6, 30.0, 1e3, 1e6])
@pytest.mark.parametrize("last", [nn.Softmax(1), nn.LayerNorm(6)])
def test_no_difference_is_below_its_bound_where_a_softmax_saturates(unit: float, last: nn.Module) -> None:
    torch.manual_seed(0)
    net = _Saturated(unit, last).double().requires_grad_(False)
    x = torch.rand(5, 16).double()
    y = net(x).argmax(1)
    bounds = LinearBounds(read_graph(Classifier(net), net, x), 2.0)
    for radius in (1e-3, 0.1):
        eps = torch.full((5,), radius).double()
        proved = refined_gaps(bounds, x, y, eps, Effort(BallCouplings(bounds), 3)).lower
        if unit <= 30 and radius < 0.1:
            assert bool((proved.amin(1) > 0).any()), "something is proved also there"
        for at in tried(x, eps, 2.0, net, y):
            scores = net(at)
            gaps = scores.gather(1, y.unsqueeze(1)) - scores
            assert not bool(((gaps < proved - 1e-12) & proved.isfinite()).any())


def test_a_box_and_an_ascent_never_shorten_a_radius() -> None:
    net = drawn("relu deep", 0)
    x = torch.rand(8, 16, generator=torch.Generator().manual_seed(0)).double()
    y = net(x).argmax(1)
    graph = read_graph(Classifier(net), net, x)
    free = certified_radii(graph, x, y, 2.0)
    assert bool((certified_radii(graph, x, y, 2.0, (0.0, 1.0)) >= free).all())
    longer = refined_radii(LinearBounds(graph, 2.0), x, y, free)
    assert bool((longer >= free).all())
    assert float((longer / free).mean()) > 1.03, "the ball says more than the box of its neurons"


def test_an_operation_without_bounds_is_named_and_a_branch_refused() -> None:
    from undertow.adversary.robustness import robustness

    class Branching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if bool(x.sum() > 0) else 2 * x

    x, y = torch.rand(3, 2).double(), torch.zeros(3, dtype=torch.long)
    found = robustness(Branching(), x, y)
    assert found.certificate.startswith("none: it branches on the values of its input")
    sine = nn.Sequential(nn.Linear(2, 2), _Sine()).double()
    assert robustness(sine, x, y).certificate == "none: the operation sin has no known linear bounds"


class _Sine(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)
