"""Each part of the proofs against a dense oracle in float64."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn
from torch.nn import functional

import undertow as ut
from tests.adversary.certificates.architectures import drawn
from undertow.adversary.certificates.activation_curves import Curve, curve_of
from undertow.adversary.certificates.ball_coupling import BallCouplings
from undertow.adversary.certificates.ball_minimum import smallest_step
from undertow.adversary.certificates.case_radii import radii_by_cases
from undertow.adversary.certificates.jacobian_bounds import JacobianBounds
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.network_graph import read_graph
from undertow.adversary.certificates.refined import Effort, refined_gaps
from undertow.adversary.certificates.relaxations import curve_range, lines_around, slope_range
from undertow.adversary.certificates.score_gaps import difference_rows
from undertow.adversary.certificates.spectral_bounds import convolution_norm
from undertow.adversary.classifier import Classifier

CURVES: dict[str, tuple[object, ...]] = {
    "relu": (),
    "leaky_relu": (-0.3,),
    "hardtanh": (-0.5, 1.0),
    "gelu": (),
    "silu": (),
    "tanh": (),
    "sigmoid": (),
    "softplus": (1.0, 20.0),
    "elu": (1.7,),
    "selu": (),
    "hardswish": (),
    "hardsigmoid": (),
    "exp": (),
    "square": (),
}


def known(name: str) -> Curve:
    curve = curve_of(name, CURVES[name])
    assert curve is not None
    return curve


def intervals() -> tuple[Tensor, Tensor]:
    """Wide and narrow ones, at zero, around the bends, far out, and of no width."""
    generator = torch.Generator().manual_seed(0)
    centre = torch.randn(200, generator=generator, dtype=torch.float64) * 4
    width = 10 ** (6 * torch.rand(200, generator=generator, dtype=torch.float64) - 4.5)
    special = torch.tensor([[0.0, 0.0], [-1e-9, 1e-9], [-30.0, 30.0], [2.0, 2.0], [-29.0, -28.0]]).double()
    low, high = torch.cat([centre - width, special[:, 0]]), torch.cat([centre + width, special[:, 1]])
    return low, high


@pytest.mark.parametrize("name", CURVES)
def test_lines_enclose_the_curve_and_touch_it(name: str) -> None:
    curve, (low, high) = known(name), intervals()
    lines = lines_around(curve, low, high)
    h = low + (high - low) * torch.linspace(0, 1, 4001, dtype=torch.float64).unsqueeze(1)
    value = curve.value(h)
    slack = 1e-13 * (1 + value.abs() + lines.size)
    below = value - (lines.low_slope * h + lines.low_offset)
    above = lines.high_slope * h + lines.high_offset - value
    assert bool((below >= -slack).all())
    assert bool((above >= -slack).all())
    loose = 1e-5 * (1 + (value.amax(0) - value.amin(0)))  # the grid itself misses the point of contact
    assert bool((below.amin(0) <= loose).all())
    assert bool((above.amin(0) <= loose).all())
    least, most = curve_range(curve, low, high)
    assert bool((least <= value.amin(0) + slack.amax(0)).all())
    assert bool((most >= value.amax(0) - slack.amax(0)).all())
    flattest, steepest = slope_range(curve, low, high)
    slopes = (value[1:] - value[:-1]) / (h[1:] - h[:-1]).clamp(min=1e-300)
    wide = high - low > 1e-3
    assert bool((slopes.amin(0) >= flattest - 1e-6 * (1 + flattest.abs()))[wide].all())
    assert bool((slopes.amax(0) <= steepest + 1e-6 * (1 + steepest.abs()))[wide].all())


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
def test_the_smallest_step_in_a_ball_and_a_box_against_a_solver(norm: float) -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(6):
        row = torch.randn(3, generator=generator, dtype=torch.float64)
        x = torch.rand(3, generator=generator, dtype=torch.float64)
        eps = torch.rand(1, generator=generator, dtype=torch.float64)
        found = float(smallest_step(row[None, None], x[None], eps, norm, (0.0, 1.0)))
        grid = torch.cartesian_prod(*[torch.linspace(-1, 1, 81, dtype=torch.float64) * eps] * 3)
        inside = (torch.linalg.vector_norm(grid, norm, dim=1) <= eps) & (
            (x + grid).clamp(0, 1) == x + grid
        ).all(1)
        sampled = float((grid[inside] @ row).min())
        assert found <= sampled + 1e-12
        if norm == 2:
            solved = minimize(
                lambda d, row=row: float(row.numpy() @ d),
                [0.0] * 3,
                bounds=[(max(-float(x[i]), -1), min(1 - float(x[i]), 1)) for i in range(3)],
                constraints={"type": "ineq", "fun": lambda d, eps=eps: float(eps) ** 2 - d @ d},
                options={"ftol": 1e-14},
            )
            assert found == pytest.approx(solved.fun, abs=1e-5), "not only below, but the minimum"
        else:
            assert found >= sampled - 0.1 * float(eps) * float(row.abs().sum())


def test_the_norm_of_a_convolution_against_its_matrix() -> None:
    generator = torch.Generator().manual_seed(0)
    for stride, padding in itertools.product((1, 2), (0, 1)):
        kernel = torch.randn(3, 2, 3, 3, generator=generator, dtype=torch.float64)
        eye = torch.eye(2 * 100, dtype=torch.float64).reshape(-1, 2, 10, 10)
        matrix = functional.conv2d(eye, kernel, stride=stride, padding=padding).flatten(1)
        true = float(torch.linalg.matrix_norm(matrix, 2))
        assert convolution_norm(kernel) >= true
        bound = convolution_norm(kernel, (stride, stride))
        assert true <= bound <= 1.1 * true


def two_layers(seed: int) -> tuple[nn.Sequential, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    net = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 3)).double().requires_grad_(False)
    for weight in net.parameters():
        weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    x = torch.randn(3, 2, generator=generator, dtype=torch.float64)
    return net, x, net(x).argmax(1)


def disc(x: Tensor, radius: float) -> Tensor:
    """The disc around each sample, densely: (points, B, 2)."""
    angle = torch.linspace(0, 2 * math.pi, 400, dtype=torch.float64)
    circle = torch.stack([angle.cos(), angle.sin()], 1)
    length = torch.linspace(0, radius, 60, dtype=torch.float64)
    return x + (length[:, None, None] * circle).reshape(-1, 1, 2)


def test_bounds_of_the_ball_against_every_point_of_the_disc() -> None:
    tighter = []
    for seed in range(12):
        net, x, y = two_layers(seed)
        graph = read_graph(Classifier(net), net, x)
        bounds = LinearBounds(graph, 2.0)
        eps = torch.full((3,), 0.4, dtype=torch.float64)
        scores = net(disc(x, 0.4))
        true = (scores.gather(2, y[None, :, None].expand(len(scores), -1, 1)) - scores).amin(0)
        plain = refined_gaps(bounds, x, y, eps, Effort(steps=0)).lower
        coupled = refined_gaps(bounds, x, y, eps, Effort(BallCouplings(bounds), 30)).lower
        others = plain.isfinite()
        assert bool((coupled <= true + 1e-9)[others].all())
        assert bool((coupled >= plain)[others].all())
        tighter.append(float((true - coupled)[others].mean() / (true - plain)[others].mean().clamp(min=1e-9)))
    assert sum(tighter) / len(tighter) < 0.7, "a third of what lines leave open is closed"


def test_the_coupling_holds_on_the_ball() -> None:
    net, x = drawn("relu deep", 3), torch.rand(4, 16, dtype=torch.float64)
    graph = read_graph(Classifier(net), net, x)
    bounds = LinearBounds(graph, 2.0)
    ball = bounds.ball(x, torch.full((4,), 0.3, dtype=torch.float64))
    for seed in range(50):
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        values = graph.values(x + 0.3 * noise / noise.norm(dim=1, keepdim=True))
        for index, coupling in BallCouplings(bounds).on(ball).items():
            at = values[graph.operations[index].inputs[0]]
            total = (coupling.weight * (at - coupling.centre) ** 2).flatten(1).sum(1)
            assert bool((total <= coupling.square * (1 + 1e-9)).all())


@pytest.mark.parametrize("norm", [1, 2, "inf"])
def test_the_lipschitz_bracket_against_every_point_of_the_disc(norm: float | str) -> None:
    order = math.inf if norm == "inf" else float(norm)
    for seed in range(4):
        net, x, y = two_layers(seed)
        points = disc(x, 0.2) if norm != 1 else x + (disc(x, 0.2) - x) / math.sqrt(2)  # inside the L1 ball
        jacobian = torch.func.vmap(torch.func.jacrev(lambda v, net=net: net(v)))(points.reshape(-1, 2))
        norms = torch.linalg.matrix_norm(jacobian, order).reshape(-1, 3).amax(0)
        found = ut.lipschitz(net, x, radius=0.2, norm=norm)
        assert bool((found.lower <= found.upper).all())
        assert bool(found.proved.all())
        assert bool((norms <= found.upper * (1 + 1e-9)).all()), "some point is steeper than what was proved"
        assert bool((found.lower >= 0.8 * norms).all()), "the search from below finds nearly the steepest"
        each = ut.lipschitz(net, x, radius=0.2, norm=norm, y=y)
        assert each.lower.shape == each.upper.shape == (3, 3)
        assert bool((each.upper.gather(1, y.unsqueeze(1)) == 0).all())
        assert bool((each.lower <= each.upper).all())


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_the_lipschitz_bracket_in_other_units(unit: float) -> None:
    x = torch.rand(3, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    here = ut.lipschitz(drawn("tanh", 0), x, radius=0.1)
    there = ut.lipschitz(drawn("tanh", 0, unit), unit * x, radius=0.1 * unit)
    assert torch.allclose(there.upper * unit, here.upper, rtol=1e-6)
    assert torch.allclose(there.lower * unit, here.lower, rtol=1e-3)


def test_jacobian_entries_and_lengths_hold_at_sampled_points() -> None:
    for name in ("gelu", "max pooling", "residual", "attention"):
        net = drawn(name, 0)
        x = torch.rand(3, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        graph = read_graph(Classifier(net), net, x)
        bounds = LinearBounds(graph, 2.0)
        shape, classes = graph.operations[graph.output].shape, graph.classes
        rows = torch.eye(classes, dtype=torch.float64).expand(3, -1, -1).reshape(3, classes, *shape)
        ball = bounds.ball(x, torch.full((3,), 0.05, dtype=torch.float64))
        found = JacobianBounds(bounds).rows(ball, rows)
        for seed in range(10):
            noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            at = (x + 0.05 * noise / noise.norm(dim=1, keepdim=True)).requires_grad_(True)
            out = net(at)
            each = [torch.autograd.grad(out[:, k].sum(), at, retain_graph=True)[0] for k in range(classes)]
            apart = (torch.stack(each, 1) - found.centre.reshape(3, classes, -1)).abs()
            assert bool((apart <= found.entries.reshape(3, classes, -1) + 1e-12).all())
            assert bool((apart.norm(dim=2) <= found.length + 1e-12).all())


def test_certified_accuracy_is_between_zero_and_what_attacks_leave() -> None:
    net, x, y = two_layers(0)
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    y = net(x).argmax(1)
    y[:4] = (y[:4] + 1) % 3
    radii = [0.0, 0.05, 0.2]
    proved = ut.certified_accuracy(net, x, y, eps=radii)
    attacked = ut.robust_accuracy(net, x, y, eps=radii, attack="fast", progress=False)
    assert proved.certificate == "linear-bounds"
    assert torch.as_tensor(proved.value)[0] == proved.clean == 0.9
    assert bool((torch.as_tensor(proved.value) <= torch.as_tensor(attacked.value)).all())
    assert torch.as_tensor(proved.value)[2] > 0.3
    unread = ut.certified_accuracy(lambda points: net(points), x, y, eps=0.05)
    assert unread.value == 0
    assert unread.certificate.startswith("none: ")


def _narrow(seeds: range, samples: int) -> float:
    """The mean of certified/exact, each radius proved case by case."""
    ratios = []
    for seed in seeds:
        net, x, y = two_layers(seed)
        x, y = x[:samples], y[:samples]
        graph = read_graph(Classifier(net), net, x)
        exact = ut.robustness(net, x, y, exact="auto", shorten=False).exact
        found = radii_by_cases(LinearBounds(graph, 2.0), x, y, 1.1 * exact)
        assert bool((found <= exact * (1 + 1e-9)).all())
        ratios.append(float((found / exact).mean()))
    return sum(ratios) / len(ratios)


def test_no_proof_by_cases_exceeds_the_exact_radius() -> None:
    assert _narrow(range(1, 3), 2) > 0.98


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
def test_no_point_of_a_ball_proved_by_cases_is_decided_otherwise(norm: float) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 5), nn.LeakyReLU(0.3), nn.Linear(5, 3)
    ).double()
    for weight in net.requires_grad_(False).parameters():
        weight.normal_()
    x = torch.randn(3, 2, dtype=torch.float64)
    y = net(x).argmax(1)
    nearest = torch.full((3,), 6.0, dtype=torch.float64)
    for _ in range(2):  # the second disc is finer
        around = nearest[:, None] * disc(torch.zeros(3, 2, dtype=torch.float64), 1.5)
        wrong = net(x + around).argmax(2) != y
        nearest = torch.where(wrong, torch.linalg.vector_norm(around, norm, dim=2), math.inf).amin(0)
    bounds = LinearBounds(read_graph(Classifier(net), net, x), norm)
    found = radii_by_cases(bounds, x, y, 1.1 * nearest)
    assert bool((found <= nearest).all())
    assert float((found / nearest).mean()) > 0.95


@pytest.mark.parametrize("reach", [1.51, 2.0, 3.0])
def test_a_case_that_the_sample_is_not_in_is_proved_where_slopes_are_larger_on_the_way(reach: float) -> None:
    """Where x ≤ 0 the second neuron stays below its kink, which it is above at x = 1: lengths must know both slopes."""
    layers = [part for _ in range(3) for part in (nn.Linear(1, 1), nn.LeakyReLU(0.1))]
    net = nn.Sequential(*layers, nn.Linear(1, 1)).double().requires_grad_(False)
    for weight, value in zip(net.parameters(), (1, 0, 1, -0.5, 1, 1, 1, -0.945), strict=True):
        weight.fill_(value)
    x, y = torch.ones(1, 1).double(), torch.tensor([1])
    assert float(net(x - 1.49)) > 0 > float(net(x - 1.51)), "the radius is 1.5"
    bounds = LinearBounds(read_graph(Classifier(net), net, x), 2.0)
    assert 1 < float(radii_by_cases(bounds, x, y, torch.tensor([reach]).double())) <= 1.5


@pytest.mark.full
def test_narrow_networks_are_certified_nearly_to_their_exact_radius_case_by_case() -> None:
    assert _narrow(range(1, 9), 3) > 0.98


def test_rows_of_differences() -> None:
    rows = difference_rows(torch.tensor([1]), 3)
    assert rows.tolist() == [[[-1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, -1.0]]]


class _WithLoss(nn.Module):
    """Scores, and beside them a number that nothing uses."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.net(x)
        _unused = (scores.sum(), torch.tanh(x).mean())
        return scores


def test_what_scores_do_not_use_is_no_part_of_the_proof() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).eval()
    x = torch.randn(3, 4)
    y = net(x).argmax(1)
    plain = ut.robustness(net, x, y, shorten=False, seconds=math.inf).certified
    beside = ut.robustness(_WithLoss(net).eval(), x, y, shorten=False, seconds=math.inf).certified
    assert torch.equal(plain, beside)
