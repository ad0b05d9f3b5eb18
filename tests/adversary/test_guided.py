"""Attacks from the certificate's weakest points, where a gradient alone goes astray."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from undertow.adversary.attacks.guided import follow_certificate
from undertow.adversary.attacks.search import begin
from undertow.adversary.certificates.certified import gap_bounds, weakest_directions
from undertow.adversary.certificates.network_graph import graph_of
from undertow.adversary.classifier import as_classifier
from undertow.adversary.closest import first_examples
from undertow.adversary.robustness import robustness


def one_feature_each(k: int = 10, *, off: float = 0.05) -> tuple[nn.Sequential, torch.Tensor, torch.Tensor]:
    """One neuron for each of k orthonormal centres, ± read-out, and the centres, where all neurons but one are off.

    The nearest error lies where k/2 neurons that are off come on together; the gradient at a centre knows of one.
    """
    hidden, output = nn.Linear(k, k), nn.Linear(k, 1, bias=False)
    signs = torch.where(torch.arange(k) < k // 2, 1.0, -1.0)
    with torch.no_grad():
        hidden.weight.copy_(torch.eye(k))
        hidden.bias.fill_(-off)
        output.weight.copy_(signs[None])
    net = nn.Sequential(hidden, nn.ReLU(), output).double()
    noise = torch.randn(k, k, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return net, torch.eye(k).double() + 0.01 * noise, (signs > 0).long()


@pytest.mark.parametrize("norm", [2.0, math.inf])
def test_the_weakest_direction_attains_the_bound(norm: float) -> None:
    net, x, y = one_feature_each()
    graph = graph_of(as_classifier(net), net, x)
    assert graph is not None
    eps = torch.linspace(0.1, 0.6, len(x)).double()
    directions = weakest_directions(graph, x, y, eps, norm)
    size = directions.abs().amax(1) if norm == math.inf else directions.norm(dim=1)
    assert torch.allclose(size, torch.ones_like(size))
    # No other point of the ball has a smaller difference of scores than what the bound says of this one.
    bound = gap_bounds(graph, x, y, eps, norm).amin(1)
    at = net(x + eps[:, None] * directions)[:, 0] * (2 * y - 1)
    assert (at >= bound - 1e-12).all()


def test_it_finds_what_neurons_that_are_off_do_together() -> None:
    net, x, y = one_feature_each()
    with as_classifier(net).scoring(x, y) as scorer:
        search = begin(scorer, x, y, norm=2.0, seed=0)
        first_examples(search)
        before = search.distance.clone()
        chain = graph_of(as_classifier(net), net, x)
        assert chain is not None
        follow_certificate(search, [chain], x.shape[1:])
    found = robustness(net, x, y, exact=True, seconds=60)
    assert set(found.status) == {"exact"}
    assert float((before[0] / found.exact).min()) > 1.1, "the gradient attacks find it alone"
    assert float((search.distance[0] / found.exact).max()) < 1.02
    moved = net(search.example[0])[:, 0] * (2 * y - 1)
    assert (moved <= 0).all()
    assert torch.allclose((search.example[0] - x).norm(dim=1), search.distance[0])


def test_clean_errors_and_samples_without_an_example_are_left_alone() -> None:
    net, x, y = one_feature_each(4)
    y = y.clone()
    y[0] = 1 - y[0]
    with as_classifier(net).scoring(x, y) as scorer:
        search = begin(scorer, x, y, norm=2.0, seed=0)
        chain = graph_of(as_classifier(net), net, x)
        assert chain is not None
        follow_certificate(search, [chain], x.shape[1:])
    assert search.distance[0, 0] == 0
    assert search.distance[0, 1:].isinf().all()


@pytest.mark.parametrize("norm", [2, math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_an_example_is_found_where_no_neuron_is_on(norm: float, dtype: torch.dtype) -> None:
    """f(x) = 1 − 4 max(0, x₁ − 1/2): flat at 0, and zero at x₁ = 3/4."""
    hidden, output = nn.Linear(3, 1), nn.Linear(1, 1)
    with torch.no_grad():
        hidden.weight.copy_(torch.tensor([[1.0, 0.0, 0.0]]))
        hidden.bias.fill_(-0.5)
        output.weight.fill_(-4.0)
        output.bias.fill_(1.0)
    flat = nn.Sequential(hidden, nn.ReLU(), output).to(dtype)
    never = nn.Sequential(nn.Linear(3, 1), nn.ReLU(), nn.Linear(1, 1)).to(dtype)
    with torch.no_grad():
        for parameter in never.parameters():
            parameter.fill_(1.0)  # positive everywhere: there is nothing to find
    x, y = torch.zeros(2, 3, dtype=dtype), torch.tensor([1, 0])
    found = robustness([flat, never], x, y, norm=norm, exact=False)
    assert found.attacked[0].tolist() == pytest.approx([0.75, 0.0], rel=1e-3)
    assert flat(found.examples[0, :1]).item() <= 0
    assert found.attacked[1].tolist() == [math.inf, 0.0]
