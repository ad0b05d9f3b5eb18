"""Where proofs are easily wrong by a little, or by everything: rounding, odd arguments, other scales, nothing known."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import undertow as ut
from tests.adversary.certificates.architectures import drawn
from undertow.adversary.certificates.ball_coupling import BallCouplings
from undertow.adversary.certificates.certified import certified_radii, gap_bounds
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.lipschitz import lipschitz_bounds
from undertow.adversary.certificates.network_graph import NetworkGraph, read_graph
from undertow.adversary.certificates.operations import AffineMap
from undertow.adversary.certificates.recorded_graph import UnreadableError
from undertow.adversary.certificates.stacked_graphs import stacked_graph
from undertow.adversary.classifier import Classifier
from undertow.measures.ball_radii import ball_radii


def graph_of(net: nn.Module, x: Tensor) -> NetworkGraph:
    return read_graph(Classifier(net), net, x)


def exact_inputs(net: nn.Sequential, x: Tensor) -> list[list[Fraction]]:
    """What enters every activation, and the scores, without any rounding."""
    value, found = [Fraction(float(part)) for part in x], []
    for layer in net:
        if isinstance(layer, nn.Linear):
            rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
            value = [
                sum((Fraction(w) * v for w, v in zip(row, value, strict=True)), Fraction(b))
                for row, b in rows
            ]
            found.append(value)
        else:
            value = [max(part, Fraction(0)) for part in value]
    return found


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("radius", [0.0, 1e-13])
def test_limits_hold_the_value_without_rounding_where_the_first_layer_cancels(
    scale: float, radius: float
) -> None:
    """What a layer rounds away of large terms is small there, and not in the layers behind it."""
    torch.manual_seed(0)
    parts = [nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 10), nn.ReLU()]
    net = nn.Sequential(*parts, nn.Linear(10, 3)).double().requires_grad_(False)
    x = scale * torch.randn(1, 30, dtype=torch.float64)
    net[0].bias -= net[0](x)[0] - torch.randn(20, dtype=torch.float64)
    graph = graph_of(net, x)
    bounds = LinearBounds(graph, 2.0)
    ball = bounds.ball(x, torch.tensor([radius * scale], dtype=torch.float64))
    maps = [
        at for at, op in enumerate(graph.operations) if isinstance(op, AffineMap) and op.matrix is not None
    ]
    true = exact_inputs(net, x[0])
    for at, each in zip(maps[:-1], true[:-1], strict=True):
        low, high = (side.flatten().tolist() for side in ball.limits[at])
        assert all(Fraction(a) <= v <= Fraction(b) for a, v, b in zip(low, each, high, strict=True))
        apart = sum(
            (v - Fraction(c)) ** 2 for v, c in zip(each, ball.values[at].flatten().tolist(), strict=True)
        )
        assert apart <= Fraction(float(ball.lengths[at])) ** 2
    for at, coupling in BallCouplings(bounds).on(ball).items():
        each = true[maps.index(graph.operations[at].inputs[0])]
        weights, centres = coupling.weight.flatten().tolist(), coupling.centre.flatten().tolist()
        terms = [Fraction(w) * (v - Fraction(c)) ** 2 for w, v, c in zip(weights, each, centres, strict=True)]
        assert sum(terms) <= Fraction(float(coupling.square))


class Between(nn.Module):
    """A function of eight numbers between two linear layers."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.function = nn.Linear(6, 8), function
        with torch.no_grad():
            width = function(self.first(torch.zeros(1, 6))).flatten(1).shape[1]
        self.last = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.last(self.function(self.first(x)).flatten(1))
        return scores


MASK = torch.arange(8) % 2 == 0
OPERATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "filled with a negative number": lambda h: torch.relu(h.masked_fill(MASK, -2)),
    "filled afterwards": lambda h: torch.relu(h).masked_fill(MASK, -2),
    "padded by a negative number": lambda h: torch.relu(functional.pad(h, (1, 2), value=-1)),
    "a product with a factor": lambda h: torch.relu(
        torch.addmm(h.new_ones(5), h, h.new_ones(8, 5), alpha=-2)
    ),
    "an offset with a factor": lambda h: torch.relu(torch.addmm(h.new_ones(5), h, h.new_ones(8, 5), beta=-3)),
    "a difference with a factor": lambda h: torch.relu(torch.rsub(h, 2, alpha=-3)),
    "a difference of tensors": lambda h: torch.relu(torch.rsub(h, h.new_ones(8), alpha=3)),
    "chosen": lambda h: torch.where(MASK, torch.relu(h), -h),
    "clamped": lambda h: h.clamp(-0.1, 0.2),
    "clamped the wrong way round": lambda h: torch.relu(h) + h.clamp(0.1, -0.2),
    "pooling of sequences": lambda h: functional.max_pool1d(h.unsqueeze(1), 3, 2, 1),
    "pooling of volumes": lambda h: functional.max_pool3d(h.reshape(-1, 1, 2, 2, 2), 2, 1),
    "adaptive pooling": lambda h: functional.adaptive_max_pool2d(h.reshape(-1, 1, 2, 4), (1, 3)),
    "the largest along an axis": lambda h: h.reshape(-1, 2, 4).max(2).values,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_limits_and_slopes_hold_whatever_an_operation_is_given(name: str) -> None:
    net, radius = Between(OPERATIONS[name]).double().requires_grad_(False), 0.3
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    graph, y = graph_of(net, x), net(x).argmax(1)
    eps = torch.full((4,), radius, dtype=torch.float64)
    for norm in (1.0, 2.0, math.inf):
        ball = LinearBounds(graph, norm).ball(x, eps)
        gaps, steepest = gap_bounds(graph, x, y, eps, norm), lipschitz_bounds(graph, x, y, eps, norm, None)
        for seed in range(40):
            noise = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            at = x + radius * noise / torch.linalg.vector_norm(noise, norm, dim=1, keepdim=True)
            for value, (low, high) in zip(graph.values(at), ball.limits.values(), strict=True):
                assert bool(((value >= low - 1e-12) & (value <= high + 1e-12)).all())
            point = at.requires_grad_(True)
            scores = net(point)
            apart = scores.gather(1, y.unsqueeze(1)) - scores
            assert bool((apart >= gaps.scatter(1, y.unsqueeze(1), 0.0) - 1e-12).all())
            for target in range(3):
                (slope,) = torch.autograd.grad(apart[:, target].sum(), point, retain_graph=True)
                dual = {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}[norm]
                length = torch.linalg.vector_norm(slope, dual, dim=1)
                assert bool((length <= steepest[:, target] * (1 + 1e-9) + 1e-12).all())


def test_limits_of_every_entry_and_a_softplus_that_jumps_are_refused_with_a_reason() -> None:
    ends = torch.rand(8)
    x = torch.rand(2, 6)
    for function in (lambda h: torch.clamp(h, max=ends), lambda h: functional.softplus(h, 5.0, 3.0)):
        net = Between(function).requires_grad_(False)
        with pytest.raises(UnreadableError, match="no known linear bounds"):
            graph_of(net, x)


def test_no_slope_of_softplus_as_it_is_executed_exceeds_the_bound() -> None:
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Softplus()).double().requires_grad_(False)
    net.get_parameter("0.weight").fill_(1.0)
    x = torch.full((1, 1), 21.0, dtype=torch.float64)  # beyond its threshold, where torch's slope is 1
    assert float(ut.lipschitz(net, x, radius=0.1).upper) >= 1


class Beside(nn.Module):
    """Scores, and beside them what has no known bounds."""

    def forward(self, x: Tensor) -> Tensor:
        _unused = torch.sin(x).sum()
        return 2 * x


def test_what_is_unknown_and_unused_is_no_part_of_the_proof() -> None:
    x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([1])
    assert ut.certified_accuracy(Beside(), x, y, eps=0.5).value == 1


def test_a_network_of_very_small_scores_is_not_proved_everywhere() -> None:
    """Squares of its slopes vanish in float64."""
    net = nn.Linear(2, 2).double().requires_grad_(False)
    net.weight.copy_(1e-170 * torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    net.bias.zero_()
    x, y = torch.tensor([[2.0, 1.0]], dtype=torch.float64), torch.tensor([0])
    assert float(certified_radii(graph_of(net, x), x, y, 2.0)) <= math.sqrt(0.5)


def test_a_neuron_next_to_its_kink_does_not_make_a_radius_endless() -> None:
    """1 − max(x − 10^9, 0), and a neuron without any weight that is 10^-30 off its kink."""
    net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1)).double().requires_grad_(False)
    values = [[1.0], [1.0]], [-1e9, -1e-30], [[-1.0, 0.0]], [1.0]
    for weight, value in zip(net.parameters(), values, strict=True):
        weight.copy_(torch.tensor(value, dtype=torch.float64))
    x = torch.zeros(1, 1, dtype=torch.float64)
    assert 0 < float(certified_radii(graph_of(net, x), x, torch.tensor([1]), 2.0)) <= 1e9 + 1


def test_radii_from_slopes_of_a_network_of_zeros_are_zero() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double().requires_grad_(False)
    for weight in net.parameters():
        weight.zero_()
    x, y = torch.rand(2, 3, dtype=torch.float64), torch.zeros(2, dtype=torch.long)
    found = ball_radii([net], x, y, torch.ones(1, 2))
    assert found is not None
    assert found.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("name", ["relu deep", "gelu", "max pooling", "residual", "attention"])
@pytest.mark.parametrize("radius", [1e30, 1e200, 1e308])
def test_on_balls_without_end_nothing_is_proved_and_nothing_is_flat(name: str, radius: float) -> None:
    net, x = (
        drawn(name, 0),
        torch.rand(2, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64),
    )
    graph, y, eps = graph_of(net, x), net(x).argmax(1), torch.full((2,), radius, dtype=torch.float64)
    others = torch.ones(2, 3 if name != "residual" else 4, dtype=torch.bool).scatter(1, y.unsqueeze(1), False)
    for norm in (1.0, 2.0, math.inf):
        assert bool((gap_bounds(graph, x, y, eps, norm)[others] < 0).all())
    point = x.clone().requires_grad_(True)
    scores = net(point)
    (slope,) = torch.autograd.grad((scores[:, 0] - scores[:, 1]).sum(), point)
    found = lipschitz_bounds(graph, x, None, eps, 2.0, None)
    assert bool((found * 2**0.5 * (1 + 1e-9) >= slope.norm(dim=1)).all()), "and never NaN"


def test_a_sample_that_rounding_has_put_beside_the_box_is_within_its_limits() -> None:
    net = drawn("relu deep", 0)
    x = torch.full((1, 16), 1 + 1e-7, dtype=torch.float64)
    ball = LinearBounds(graph_of(net, x), 2.0, (0.0, 1.0)).ball(x, torch.zeros(1, dtype=torch.float64))
    for value, (low, high) in zip(ball.values.values(), ball.limits.values(), strict=True):
        assert bool(((low <= value) & (value <= high)).all())


def test_rows_of_several_networks_are_refused_without_saying_whose() -> None:
    nets = [drawn("relu deep", seed) for seed in range(2)]
    x = torch.rand(2, 16, dtype=torch.float64)
    stack = stacked_graph([graph_of(net, x) for net in nets])
    assert stack is not None
    layer = next(op for op in stack.operations if isinstance(op, AffineMap) and op.matrix is not None)
    for through in (layer.backward, layer.backward_absolute):
        with pytest.raises(AssertionError):
            through(torch.ones(2, 1, *layer.shape, dtype=torch.float64))


class _Attending(nn.Module):
    """Causal attention by PyTorch's fused kernel, which has no second derivative."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.last = nn.Linear(4, 12), nn.Linear(20, 3)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.read(x).unflatten(2, (3, 1, 4)).permute(2, 0, 3, 1, 4).unbind(0)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.last(seen.flatten(1))  # type: ignore[no-any-return]


def test_steep_points_of_a_network_with_fused_attention() -> None:
    torch.manual_seed(0)
    net, x = _Attending().eval(), torch.randn(2, 5, 4)
    found = ut.lipschitz(net, x, radius=0.1)
    assert bool((found.lower >= 0.999 * ut.jacobian_norms(net, x).value).all())
    assert bool((found.lower <= found.upper).all())
