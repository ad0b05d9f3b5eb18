"""Examples on lines to points that are decided otherwise, for samples from which no gradient leads anywhere."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from undertow.adversary.attacks.line import try_lines
from undertow.adversary.attacks.search import begin
from undertow.adversary.classifier import Classifier
from undertow.adversary.closest import closest_examples
from undertow.adversary.geometry import lengths


def dead(seed: int, *, width: int = 6) -> tuple[nn.Sequential, Tensor, Tensor]:
    """A ReLU network in the plane whose neurons are off at many samples, and the labels that it gives."""
    generator = torch.Generator().manual_seed(seed)
    hidden, head = nn.Linear(2, width), nn.Linear(width, 1)
    with torch.no_grad():
        hidden.weight.copy_(torch.randn(width, 2, generator=generator))
        hidden.bias.fill_(-1.5)
        head.weight.fill_(1.0)
        head.bias.fill_(-0.5)
    net = nn.Sequential(hidden, nn.ReLU(), head).double().requires_grad_(False)
    x = 2 * torch.randn(60, 2, generator=generator, dtype=torch.float64)
    return net, x, (net(x)[:, 0] > 0).long()


@pytest.mark.parametrize("norm", [2.0, math.inf])
@pytest.mark.parametrize("seed", range(5))
def test_every_sample_has_an_example_where_another_class_is_known(seed: int, norm: float) -> None:
    net, x, y = dead(seed)
    assert 0 < int(y.sum()) < len(y)
    off = (net[0](x) <= 0).all(1)
    assert bool(off.any())
    distance, examples = closest_examples(net, x, y, norm=norm, rounds=1, restarts=0)
    assert bool(distance.isfinite().all())
    assert bool((Classifier(net).margins(examples, y) <= 0).all())
    assert torch.allclose(distance, lengths(examples - x, norm))


def test_ends_are_the_nearest_and_none_is_one_s_own_class() -> None:
    """One logit x₁: from (1, 0) the nearest sample of the other class is met half-way to its boundary, x₁ = 0."""
    x = torch.tensor([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0], [-9.0, 0.0]]).double()
    y = torch.tensor([1, 1, 0, 0])
    with Classifier(lambda v: v[:, :1]).scoring(x, y) as scorer:
        search = begin(scorer, x, y, norm=2.0, seed=0)
        try_lines(search, todo=torch.tensor([[True, False, False, True]]), ends=1)
        assert search.distance[0].tolist() == pytest.approx([1.0, math.inf, math.inf, 9.0], rel=1e-5)
        assert search.scorer(search.example)[0, 0, 1] <= 0


def test_other_samples_examples_serve_as_ends() -> None:
    """All samples are of one class: only an example of the second one leads the first, which is dead, out."""
    x, y = torch.tensor([[-4.0], [2.0]]).double(), torch.tensor([0, 0])
    with Classifier(lambda v: torch.relu(v - 1) - 2).scoring(x, y) as scorer:
        search = begin(scorer, x, y, norm=2.0, seed=0)
        try_lines(search)
        assert bool(search.distance.isinf().all())
        search.distance[0, 1], search.example[0, 1] = 1.5, torch.tensor([3.5])
        try_lines(search)
    assert search.distance[0].tolist() == pytest.approx([7.0, 1.5], rel=1e-5)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_units_do_not_matter(unit: float) -> None:
    net, x, y = dead(0)
    found = []
    for scale in (1.0, unit):
        with Classifier(net, std=scale).scoring(scale * x, y) as scorer:
            search = begin(scorer, scale * x, y, norm=2.0, seed=0)
            try_lines(search)
        found.append(search.distance / scale)
    assert torch.allclose(found[0], found[1], rtol=1e-5)
