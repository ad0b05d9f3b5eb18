"""Proofs of several networks as one batch: those of each network by itself, whichever samples it is asked about."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from tests.adversary.certificates.architectures import ARCHITECTURES, drawn
from tests.adversary.certificates.test_patches import NETWORKS as PICTURES
from undertow.adversary.certificates.ball_coupling import BallCouplings
from undertow.adversary.certificates.case_radii import radii_by_cases
from undertow.adversary.certificates.certified import certified_radii
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.lipschitz import lipschitz_bounds
from undertow.adversary.certificates.member_batches import MemberBatch
from undertow.adversary.certificates.network_graph import NetworkGraph, read_graph
from undertow.adversary.certificates.refined import Effort, refined_gaps, refined_radii
from undertow.adversary.certificates.stacked_graphs import stacked_graph, together
from undertow.adversary.certified_accuracy import certified_accuracy
from undertow.adversary.classifier import Classifier
from undertow.adversary.robustness import robustness


def _drawn(name: str, count: int = 3) -> tuple[list[nn.Module], list[NetworkGraph], Tensor]:
    if name in PICTURES:
        nets, size = [], 64
        for seed in range(count):
            torch.manual_seed(seed)
            nets.append(PICTURES[name]().eval().double().requires_grad_(False))
    else:
        nets, size = [drawn(name, seed) for seed in range(count)], 16
    x = torch.rand(5, size, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    return nets, [read_graph(Classifier(net), net, x) for net in nets], x


def _ragged(nets: Sequence[nn.Module], x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Samples of the networks in no order, and not as many of each: which network, which sample, its label."""
    who = torch.tensor([2, 0, 0, 2, 1, 2])
    own = torch.tensor([0, 1, 3, 2, 4, 4])
    labels = torch.stack([Classifier(net).margins(x, torch.ones(5, dtype=torch.long)) > 0 for net in nets])
    scores = [net(x) for net in nets]
    if scores[0].shape[1] > 1:
        labels = torch.stack([each.argmax(1) for each in scores])
    return who, own, labels[who, own].long()


NOTHING_NEW = {
    *("relu two layers", "leaky", "steep leaky", "relu6", "hardtanh", "gelu tanh"),
    *("silu", "sigmoid", "softplus", "elu", "selu", "hardswish"),
}
"""Curves without weights of their own: to whom a curve belongs is told by those that stay; attention is long."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=pytest.mark.full if name in NOTHING_NEW | {"attention", "causal attention"} else ()
        )
        for name in (*ARCHITECTURES, *PICTURES)
    ],
)
def test_bounds_are_those_of_each_network_by_itself(name: str) -> None:
    nets, graphs, x = _drawn(name)
    stack = stacked_graph(graphs)
    assert stack is not None
    who, own, y = _ragged(nets, x)
    eps = 0.05 + 0.01 * torch.arange(len(who), dtype=torch.float64)
    bounds = LinearBounds(stack, 2.0)
    values = stack.values(x[own], MemberBatch.of(who))
    found = refined_gaps(bounds, x[own], y, eps, Effort(BallCouplings(bounds), 2), who=who)
    slopes = lipschitz_bounds(stack, x[own], y, eps, 2.0, None, who=who)
    for member, graph in enumerate(graphs):
        mine = (who == member).nonzero().squeeze(1)
        points, labels = x[own[mine]], y[mine]
        for together_, alone in zip(values, graph.values(points), strict=True):
            assert torch.allclose(together_[mine], alone, rtol=1e-12, atol=1e-12)
        single = LinearBounds(graph, 2.0)
        expected = refined_gaps(single, points, labels, eps[mine], Effort(BallCouplings(single), 2))
        others = expected.lower.isfinite()
        assert torch.allclose(found.lower[mine][others], expected.lower[others], rtol=1e-6, atol=1e-9)
        alone = lipschitz_bounds(graph, points, labels, eps[mine], 2.0, None)
        assert torch.allclose(slopes[mine], alone, rtol=1e-9)


EVERY_NORM_ONCE = {("relu deep", 2.0), ("tanh", math.inf), ("strided", 1.0)}


@pytest.mark.parametrize(
    ("name", "norm"),
    [
        pytest.param(name, norm, marks=() if (name, norm) in EVERY_NORM_ONCE else pytest.mark.full)
        for name in ("relu deep", "tanh", "strided", "residual")
        for norm in (1.0, 2.0, math.inf)
    ],
)
def test_radii_are_those_of_each_network_by_itself(name: str, norm: float) -> None:
    nets, graphs, x = _drawn(name)
    stack = stacked_graph(graphs)
    assert stack is not None
    who, own, y = _ragged(nets, x)
    plain = certified_radii(stack, x[own], y, norm, who=who)
    longer = refined_radii(LinearBounds(stack, norm), x[own], y, plain, who=who)
    for member, graph in enumerate(graphs):
        mine = who == member
        alone = certified_radii(graph, x[own[mine]], y[mine], norm)
        assert torch.allclose(plain[mine], alone, rtol=1e-6)
        more = refined_radii(LinearBounds(graph, norm), x[own[mine]], y[mine], alone)
        assert torch.allclose(longer[mine], more, rtol=0.01), "to which radii are searched"


def test_radii_by_cases_are_those_of_each_network_by_itself() -> None:
    nets, graphs, x = _drawn("relu two layers")
    stack = stacked_graph(graphs)
    assert stack is not None
    who, own, y = _ragged(nets, x)
    reach = 0.2 + 0.05 * torch.arange(len(who), dtype=torch.float64)
    found = radii_by_cases(LinearBounds(stack, 2.0), x[own], y, reach, who=who)
    for member, graph in enumerate(graphs):
        mine = who == member
        alone = radii_by_cases(LinearBounds(graph, 2.0), x[own[mine]], y[mine], reach[mine])
        assert torch.allclose(found[mine], alone, rtol=5e-3)


def test_members_that_are_mixed_up_would_be_noticed() -> None:
    """What the tests above compare differs between networks by far more than they allow."""
    nets, graphs, x = _drawn("relu deep")
    stack = stacked_graph(graphs)
    assert stack is not None
    who, own, y = _ragged(nets, x)
    found = certified_radii(stack, x[own], y, 2.0, who=who)
    wrong = certified_radii(stack, x[own], y, 2.0, who=(who + 1) % 3)
    assert bool(((found - wrong).abs() > 1e-2 * found.abs()).all())


def test_networks_that_differ_in_more_than_weights_go_one_by_one() -> None:
    torch.manual_seed(0)
    nets = [
        nn.Sequential(nn.Linear(4, 5), nn.PReLU(init=0.1 * i), nn.Linear(5, 2)).double() for i in range(2)
    ]
    x = torch.rand(3, 4, dtype=torch.float64)
    graphs = [read_graph(Classifier(net), net, x) for net in nets]
    assert stacked_graph(graphs) is None
    assert [members for members, _ in together(graphs)] == [range(1), range(1, 2)]
    y = nets[0](x).argmax(1)
    each = [robustness(net, x, y, exact=False).certified for net in nets]
    assert torch.allclose(robustness(nets, x, y, exact=False).certified, torch.stack(each), rtol=1e-6)


@pytest.mark.parametrize("bounds", [None, pytest.param((0.0, 1.0), marks=pytest.mark.full)])
def test_the_public_functions_prove_all_networks_as_they_prove_each(
    bounds: tuple[float, float] | None,
) -> None:
    nets, _, x = _drawn("relu deep", 2)
    x = x[:3]
    y = nets[0](x).argmax(1)
    radii = [0.02, 0.1, 0.3]
    shares = certified_accuracy(nets, x, y, eps=radii, bounds=bounds)
    found = robustness(nets, x, y, exact=False, bounds=bounds)
    for member, net in enumerate(nets):
        alone = certified_accuracy(net, x, y, eps=radii, bounds=bounds)
        assert torch.equal(shares.proved[member], alone.proved)
        single = robustness(net, x, y, exact=False, bounds=bounds)
        assert torch.allclose(found.certified[member], single.certified, rtol=0.01)


@pytest.mark.parametrize("name", ["relu deep", "gelu", "strided", "pooled", "residual"])
def test_a_sample_has_the_same_bounds_in_any_company(name: str) -> None:
    nets, graphs, x = _drawn(name, 1)
    y = nets[0](x).argmax(1)
    bounds = LinearBounds(graphs[0], 2.0)
    couplings = BallCouplings(bounds)
    eps = torch.tensor([0.3, 0.02, 0.1, 0.2, 0.05], dtype=torch.float64)

    def gaps(index: Tensor) -> Tensor:
        return refined_gaps(bounds, x[index], y[index], eps[index], Effort(couplings, 5)).lower

    order = torch.tensor([3, 0, 4, 1, 2])
    everyone, shuffled = gaps(torch.arange(5)), gaps(order)
    others = everyone.isfinite()
    assert torch.allclose(shuffled[others[order]], everyone[order][others[order]], rtol=1e-6, atol=1e-9)
    for index in range(5):
        alone = gaps(torch.tensor([index]))[0]
        assert torch.allclose(alone[others[index]], everyone[index][others[index]], rtol=1e-6, atol=1e-9)
