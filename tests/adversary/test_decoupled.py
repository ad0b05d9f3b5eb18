"""The fast attack against the slow ones, and in the places where attacks go wrong."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from tests.adversary.cases import decisions, digits, mlp, parity, points
from tests.adversary.test_line import dead
from undertow.adversary import Classifier, Groups, robust_accuracy, robustness
from undertow.adversary.geometry import lengths


def radii(net: object, x: Tensor, y: Tensor, **options: object) -> Tensor:
    return robust_accuracy(net, x, y, eps=1e-9, attack="fast", certify=False, **options).distance  # type: ignore[arg-type]


@pytest.mark.parametrize("bounds", [pytest.param(None, marks=pytest.mark.full), (0.0, 1.0)])
@pytest.mark.parametrize("norm", [pytest.param(2, marks=pytest.mark.full), math.inf])
def test_within_five_per_cent_of_the_best_at_a_twentieth_of_the_cost(
    norm: float, bounds: tuple[float, float] | None
) -> None:
    net, x, y = digits()
    x, y = x[:60], y[:60]
    best = robustness(net, x, y, norm=norm, exact=False, bounds=bounds).attacked
    found = robust_accuracy(net, x, y, eps=0.1, norm=norm, attack="fast", bounds=bounds, certify=False)
    right = best > 0
    ratio = found.distance[right] / best[right]
    assert float(ratio.median()) < 1.005
    assert float((ratio < 1.05).double().mean()) >= 0.95
    whole = robust_accuracy(net, x, y, eps=1e-9, norm=norm, bounds=bounds, certify=False)  # nothing is broken
    assert 20 * (found.passes.forward + found.passes.backward) < whole.passes.forward + whole.passes.backward


@pytest.mark.parametrize("norm", [2.0, math.inf])
def test_the_examples_are_what_they_say(norm: float) -> None:
    net, x, y = digits()
    found = robust_accuracy(net, x, y, eps=0.1, norm=norm, attack="fast", bounds=(0.0, 1.0))
    broken = (found.distance > 0) & found.distance.isfinite()
    assert torch.allclose(found.distance[broken], lengths(found.examples - x, norm)[broken])
    assert bool((Classifier(net).margins(found.examples, y)[broken] <= 0).all())
    assert float(found.examples.min()) >= 0
    assert float(found.examples.max()) <= 1


@pytest.mark.parametrize("norm", [2, math.inf])
def test_exact_on_a_linear_network(norm: float) -> None:
    """The nearest of the boundaries between class y and the others: (s_y − s_t) / ‖w_y − w_t‖_dual."""
    net = nn.Sequential(nn.Linear(7, 5)).double().requires_grad_(False)
    x = points(0, 30, 7)
    y, weight = decisions(net, x), net[0].weight
    assert isinstance(weight, Tensor)
    gaps = net(x).gather(1, y[:, None]) - net(x)
    slopes = (weight[y].unsqueeze(1) - weight).norm(p=1 if norm == math.inf else 2, dim=-1)
    exact = torch.where(torch.arange(5) == y[:, None], math.inf, gaps / slopes).amin(1)
    assert torch.allclose(radii(net, x, y, norm=norm), exact, rtol=1e-3)


def test_members_one_logit_two_classes_and_groups() -> None:
    net, x, y = digits()
    one, two = parity(net)
    labels, odd, even = y % 2, (1, 3, 5, 7, 9), (0, 2, 4, 6, 8)
    alone = radii(one, x, labels)
    assert torch.allclose(radii(two, x, labels), alone, rtol=1e-2)
    assert torch.allclose(radii(net, x, labels, readout=Groups(odd, even)), alone, rtol=1e-2)
    nets = [mlp(seed, inputs=6, outputs=4) for seed in range(3)]
    inputs = points(0, 20, 6)
    truth = decisions(nets[0], inputs)
    together = radii(nets, inputs, truth)
    assert torch.allclose(together, torch.stack([radii(each, inputs, truth) for each in nets]), rtol=1e-6)


@pytest.mark.parametrize("norm", [2, math.inf])
def test_dead_samples_have_an_example_too(norm: float) -> None:
    net, x, y = dead(0)
    found = radii(net, x, y, norm=norm)
    best = robustness(net, x, y, norm=norm, exact=False).attacked
    assert bool(found.isfinite().all())
    alive = (net[0](x) > 0).any(1) & (best > 0)
    assert float((found / best)[alive].median()) < 1.01


def test_a_box_that_cuts_the_shortest_way_off() -> None:
    """f = x₁ + 4 x₂ at (1, 0.1) in [0, 1]²: x₂ has 0.1 of room, the rest must come from x₁, −1 + … = 0."""
    net = nn.Sequential(nn.Linear(2, 1)).double().requires_grad_(False)
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 4.0]]))  # type: ignore[operator]
        net[0].bias.fill_(-0.5)  # type: ignore[operator]
    x, y = torch.tensor([[1.0, 0.1]]).double(), torch.tensor([1])
    found = radii(net, x, y, bounds=(0.0, 1.0))
    assert float(found) == pytest.approx(math.hypot(0.1, 0.5), rel=2e-2)
