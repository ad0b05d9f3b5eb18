"""Margins and KKT residuals in other norms than L2, radii for three attackers, and which way weights go."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from undertow.adversary.robustness import robustness
from undertow.data.separable import separable
from undertow.data.separable_classes import separable_classes
from undertow.measures import measure
from undertow.measures.attacker_radii import linear_radii
from undertow.measures.kkt import kkt
from undertow.measures.margins import margins
from undertow.measures.norm_stationarity import stationarity
from undertow.measures.pair_gradients import PairGradients, Pairs
from undertow.measures.step_geometry import StepGeometry, log_gradient
from undertow.models.mlp import mlp
from undertow.theory.max_margin import margin_rows, max_margin
from undertow.theory.weight_norms import WEIGHT_NORMS, WeightNorm, dual_norm, weight_norm


def two_layer(seed: int = 0, outputs: int = 1) -> nn.Sequential:
    draw = torch.Generator().manual_seed(seed)
    return mlp(inputs=4, widths=[6], outputs=outputs, dtype=torch.float64, generator=draw)


def labelled_by(net: nn.Module, n: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(n, 4, generator=torch.Generator().manual_seed(5)).double()
    with torch.no_grad():
        scores = net(x)
    alive = (scores.abs() > 1e-3).any(1)  # no unit speaks at the others
    x, scores = x[alive], scores[alive]
    return x, scores.argmax(1) if scores.shape[1] > 1 else (scores[:, 0] > 0).long()


@pytest.mark.parametrize("norm", WEIGHT_NORMS)
@pytest.mark.parametrize("classes", [2, 4])
def test_the_largest_margins_direction_is_a_kkt_point(norm: WeightNorm, classes: int) -> None:
    data = separable(n=16, d=5) if classes == 2 else separable_classes(n=16, d=5)
    outputs = 1 if classes == 2 else 4
    best = max_margin(margin_rows(data.x, data.y, classes=classes), norm=norm, shapes=[(outputs, 5)])
    net = nn.Linear(5, outputs, bias=False).double()
    net.weight.data.copy_(best.direction.view(outputs, 5))
    found = kkt(net, data.x, data.y, weight_norm=norm)
    assert found.residual < (1e-4 if norm != "2" else 1e-2)
    assert found.slackness < 1e-3
    assert margins(net, data.x, data.y, weight_norm=norm).normalised == pytest.approx(best.value)
    for key, value, _ in measure("norm-kkt")(net, data.x, data.y):
        if key == f"total:{norm}":
            assert abs(value) < 1e-4
    readings = {key: value for key, value, _ in measure("linear-optimum")(net, data.x, data.y)}
    assert readings[f"cosine:{norm}"] == pytest.approx(1, abs=1e-6)
    assert readings[f"optimum:{norm}"] == pytest.approx(best.value)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("norm", ["1", "inf", "spectral", "layerwise"])
def test_no_multipliers_on_a_grid_do_better(norm: WeightNorm, outputs: int) -> None:
    net = two_layer(outputs=outputs)
    x, y = labelled_by(net)
    found = kkt(net, x, y, weight_norm=norm)
    assert 0 <= found.residual < 1
    assert found.error < 1e-3
    theta = list(net.parameters())
    rows = []
    for point, label in zip(x, y, strict=True):
        scores = net(point[None])[0]
        gaps = (
            [scores[0] * (2 * label - 1)]
            if outputs == 1
            else [scores[label] - scores[j] for j in range(outputs) if j != label]
        )
        for gap in gaps:
            slopes = torch.autograd.grad(gap, theta, retain_graph=True)
            rows.append(torch.cat([slope.flatten() for slope in slopes]))
    matrix = torch.stack(rows)
    ours = stationarity(matrix, theta, norm)
    assert ours.residual == pytest.approx(found.residual, abs=1e-6)
    flat = torch.cat([weight.detach().flatten() for weight in theta])
    least = float((matrix @ flat).min())
    draw = torch.Generator().manual_seed(1)

    sizes = [weight.numel() for weight in theta]
    for _ in range(300):
        tried = torch.rand(len(matrix), generator=draw).double() ** 4
        u = (tried / tried.sum()) @ matrix
        layers = [part.view(w.shape) for part, w in zip(u.split(sizes), theta, strict=True)]
        total = 1 - least / (weight_norm(theta, norm) * dual_norm(layers, norm))
        assert total >= ours.total - ours.error - 1e-9


def test_scaling_the_network_changes_no_residual() -> None:
    net = two_layer(3)
    x, y = labelled_by(net)
    before = [kkt(net, x, y, weight_norm=norm).residual for norm in ("1", "inf", "spectral")]
    for weight in net.parameters():
        weight.data.mul_(1e4)
    after = [kkt(net, x, y, weight_norm=norm).residual for norm in ("1", "inf", "spectral")]
    assert after == pytest.approx(before, abs=1e-6)


def at_kinks(depth: int, seed: int = 8) -> tuple[nn.Sequential, torch.Tensor, torch.Tensor]:
    """A network of which every third point has two units of the first layer exactly at their kinks."""
    draw = torch.Generator().manual_seed(seed)
    net = mlp(inputs=4, widths=[5] * depth, outputs=1, dtype=torch.float64, generator=draw)
    weight = next(net.parameters()).detach()
    x = torch.randn(12, 4, generator=draw).double()
    for place in range(0, 12, 3):
        plane = torch.linalg.qr(weight[[place % 5, (place + 1) % 5]].T)[0]
        x[place] -= plane @ (plane.T @ x[place])
    with torch.no_grad():
        scores = net(x)[:, 0]
    alive = scores.abs() > 1e-3
    return net, x[alive], (scores[alive] > 0).long()


def rows_of_all_patterns(net: nn.Sequential, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """∇q of every point for every pattern that is the network's away from kinks."""
    hidden, head = (p.detach() for p in net.parameters())
    rows = []
    for point, z, sign in zip(x, x @ hidden.T, 2.0 * y - 1, strict=True):
        for pattern in itertools.product([0.0, 1.0], repeat=len(z)):
            slopes = torch.tensor(pattern, dtype=torch.float64)
            if bool(((slopes == (z > 0)) | (z.abs() < 1e-9)).all()):
                by_hidden = (slopes * head[0])[:, None] * point
                rows.append(sign * torch.cat([by_hidden.flatten(), slopes * z]))
    assert len(rows) > len(x)
    return torch.stack(rows)


@pytest.mark.parametrize("norm", ["1", "2", "inf", "spectral"])
def test_slopes_at_kinks_are_the_best_of_all_patterns(norm: WeightNorm) -> None:
    gains = []
    for seed in range(8, 12):
        net, x, y = at_kinks(1, seed)
        every = stationarity(rows_of_all_patterns(net, x, y), [p.detach() for p in net.parameters()], norm)
        readings = list(measure("norm-kkt", norms=(norm,), kinks=1e-6)(net, x, y))
        found, errors = {key: value for key, value, _ in readings}, {key: error for key, _, error in readings}
        total, error = found[f"total:{norm}"], errors[f"total:{norm}"]
        assert error is not None
        assert every.total - every.error - 1e-9 <= total <= every.total + error + 1e-9
        assert error < 1e-3
        gains.append(found[f"smooth:{norm}"] - total)
        if norm != "2":
            whole = kkt(net, x, y, weight_norm=norm)
            assert whole.kinks > 0
            assert (1 - whole.residual) * (1 - whole.slackness) == pytest.approx(1 - total, abs=1e-6)
    assert min(gains) > -1e-6
    assert max(gains) > 3e-4


def test_with_more_layers_free_slopes_never_make_it_worse() -> None:
    net, x, y = at_kinks(2)
    for norm in WEIGHT_NORMS[:4]:
        found = {key: value for key, value, _ in measure("norm-kkt", norms=(norm,), kinks=1e-6)(net, x, y)}
        assert found[f"total:{norm}"] <= found[f"smooth:{norm}"] + 1e-6


def test_rows_are_autograds_gradients_for_layers_of_every_kind() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Unflatten(1, (1, 4, 4)),
            nn.Conv2d(1, 3, 3),
            nn.BatchNorm2d(3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(12, 3),
        )
    net = net.double().eval()
    x, y = torch.randn(5, 16, generator=torch.Generator().manual_seed(1)).double(), torch.arange(5) % 3
    names = [name for name, _ in net.named_parameters() if name != "5.bias"]
    gradients = PairGradients(net, x, labels=y, signs=None, names=names)
    pairs = Pairs(torch.tensor([0, 1, 4]), torch.tensor([1, 0, 2]))
    for row, point, rival in zip(gradients.rows(pairs), pairs.points, pairs.rivals, strict=True):
        scores = net(x[point][None])[0]
        slopes = torch.autograd.grad(scores[y[point]] - scores[rival], [net.get_parameter(n) for n in names])
        torch.testing.assert_close(row, torch.cat([each.flatten() for each in slopes]))


def test_a_wrong_point_is_not_feasible() -> None:
    net = two_layer()
    x, y = labelled_by(net)
    found = kkt(net, x, 1 - y, weight_norm="inf")
    assert not found.feasible
    assert "misclassified" in found.sentence
    assert not list(measure("norm-kkt")(net, x, 1 - y))


@pytest.mark.parametrize("attacker", ["1", "2", "inf"])
def test_linear_radii_are_those_that_are_certified_and_attacked(attacker: str) -> None:
    for outputs in (1, 4):
        weight = torch.randn(outputs, 5, generator=torch.Generator().manual_seed(2)).double()
        layer = nn.Linear(5, outputs, bias=False).double()
        layer.weight.data.copy_(weight)
        net = nn.Sequential(layer)
        x = torch.randn(20, 5, generator=torch.Generator().manual_seed(3)).double()
        y = torch.arange(20) % max(outputs, 2)
        ours = linear_radii(weight, x, y, attacker=attacker)
        found = robustness(net, x, y, norm=float(attacker), readout="logit" if outputs == 1 else None)
        assert ours.numpy() == pytest.approx(found.certified.numpy(), rel=1e-5, abs=1e-9)
        assert ours.numpy() == pytest.approx(found.attacked.numpy(), rel=1e-3, abs=1e-9)


def test_radii_of_a_network_are_in_order() -> None:
    net = two_layer()
    x, y = labelled_by(net, 6)
    read = {key: value for key, value, _ in measure("exact-radii")(net, x, y)}
    for attacker in ("1", "2", "inf"):
        certified, exact, attacked = (
            read[f"{attacker}:{side}"] for side in ("certified", "exact", "attacked")
        )
        assert 0 < certified <= exact * (1 + 1e-6)
        assert exact <= attacked * (1 + 1e-6)
    assert read["inf:exact"] < read["2:exact"] < read["1:exact"]


def test_the_way_of_sign_descent_is_that_of_the_signs() -> None:
    net = nn.Linear(3, 1, bias=False).double()
    net.weight.data.copy_(torch.tensor([[0.1, -0.2, 0.3]]))
    x, y = torch.tensor([[3.0, 1.0, -0.1]]).double(), torch.tensor([1])
    for step in (lambda slope: slope, torch.sign):
        tracker = StepGeometry().begin(net, x, y, learning_rate=1.0)
        assert "sign" not in {key for key, _, _ in tracker.read(net, x, y)}
        _, slope = log_gradient(net, x, y)
        net.weight.data.sub_(1e-6 * step(slope)[None])
        read = {key: value for key, value, _ in tracker.read(net, x, y)}
        assert (read["gradient"] > 0.999999) == (step is not torch.sign)
        assert (read["sign"] > 0.999999) == (step is torch.sign)
        net.weight.data.mul_(-1)
    net.weight.data.mul_(1e5)  # a loss far below the smallest float
    if float(net(x).detach()) < 0:
        net.weight.data.mul_(-1)
    read = {
        key: value for key, value, _ in StepGeometry().begin(net, x, y, learning_rate=1.0).read(net, x, y)
    }
    assert read["log10-loss"] < -1000
    assert read["log10-steepest"] == pytest.approx(read["log10-loss"] + 0.477, abs=0.01)
