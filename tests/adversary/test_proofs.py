"""A certified radius is a proof, in floating point too; what contradicts it is reported and never cut off."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor, nn

from tests.adversary.cases import decisions, digits, mlp, points
from undertow.adversary import Classifier, robust_accuracy, robustness
from undertow.adversary.certificates.certified import certified_radii, gap_bounds
from undertow.adversary.certificates.network_graph import graph_of
from undertow.adversary.exact.branching import exact_distance, least_distance
from undertow.adversary.exact.two_layer_gaps import two_layer_of


def enumerated(net: nn.Sequential, x: Tensor, label: int, norm: float) -> float:
    """The nearest error over all activation patterns, each a convex program of its own."""
    W, b, V, c = (parameter.numpy() for parameter in net.parameters())
    h, best = W @ x.numpy() + b, math.inf
    for signs in itertools.product([-1.0, 1.0], repeat=len(b)):
        pattern = np.array(signs)
        inside, room = -pattern[:, None] * W, pattern * h  # pattern·(h + Wδ) ≥ 0
        for target in range(len(c)):
            a = np.where(pattern > 0, V[label] - V[target], 0.0)
            if target == label or not a.any():
                continue
            rows = np.vstack([inside, a @ W])
            sides = np.append(room, -(a @ h + c[label] - c[target]))
            best = min(best, _smallest(rows, sides, norm))
    return best


def _smallest(rows: np.ndarray, sides: np.ndarray, norm: float) -> float:
    if norm == 2:
        delta = least_distance(rows, sides)
        return math.inf if delta is None else float(np.linalg.norm(delta))
    d = rows.shape[1]
    sizes = np.ones((d, 1)) if norm == math.inf else np.eye(d)  # |δ_i| ≤ t, or ≤ t_i
    ball = np.hstack([np.vstack([np.eye(d), -np.eye(d)]), -np.vstack([sizes, sizes])])
    parts = sizes.shape[1]
    result = linprog(
        np.append(np.zeros(d), np.ones(parts)),
        A_ub=np.vstack([np.hstack([rows, np.zeros((len(rows), parts))]), ball]),
        b_ub=np.append(sides, np.zeros(2 * d)),
        bounds=[(None, None)] * d + [(0, None)] * parts,
    )
    return float(result.fun) if result.status == 0 else math.inf


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
def test_no_certificate_exceeds_the_enumerated_radius(norm: float) -> None:
    """Among them many whose certificate is tight: the radius is that of the linear piece around the sample."""
    tight = 0
    for seed in range(12):
        net, x = mlp(seed, inputs=2, width=3, outputs=2 + seed % 2), points(seed, 4, 2)
        y = decisions(net, x)
        graph = graph_of(Classifier(net), net, x)
        assert graph is not None
        certified = certified_radii(graph, x, y, norm)
        two_layer = two_layer_of(graph, x[:1])
        assert two_layer is not None
        for point, label, radius in zip(x, y.tolist(), certified.tolist(), strict=True):
            truth = enumerated(net, point, label, norm)
            assert radius <= truth
            solved = exact_distance(
                two_layer, point.numpy(), label, norm=norm, upper=math.inf, box=None, seconds=20
            )
            assert solved.upper == pytest.approx(truth, rel=1e-7)
            tight += radius > 0.999999 * truth
    assert tight >= 8


@pytest.mark.parametrize("norm", [2.0, math.inf])
def test_a_bound_is_below_what_rational_arithmetic_gives(norm: float) -> None:
    """The gap at radius 0 of a deep network whose layers cancel, in exact fractions: no bound may be above it."""
    from fractions import Fraction

    generator = torch.Generator().manual_seed(0)
    above = 0
    for _ in range(20):
        sizes = (5, 8, 8, 2)
        layers = [nn.Linear(a, b).double().requires_grad_(False) for a, b in itertools.pairwise(sizes)]
        for layer in layers:
            layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator, dtype=torch.float64))
            layer.bias.copy_(torch.randn(layer.bias.shape, generator=generator, dtype=torch.float64))
        layers[2].weight[1] = layers[2].weight[0] + 1e-9 * layers[2].weight[1]  # nearly the same score twice
        layers[2].bias.fill_(1e3)
        net = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
        x = torch.randn(1, 5, generator=generator, dtype=torch.float64)
        value = [Fraction(v) for v in x[0].tolist()]
        for layer in layers:
            value = [
                sum(Fraction(w) * v for w, v in zip(row, value, strict=True)) + Fraction(b)
                for row, b in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
            ]
            value = value if layer is layers[2] else [max(v, Fraction(0)) for v in value]
        truth = value[0] - value[1]
        graph = graph_of(Classifier(net), net, x)
        assert graph is not None
        bound = gap_bounds(graph, x, torch.tensor([0]), torch.zeros(1), norm)[0, 1]
        assert Fraction(float(bound)) <= truth
        assert float(bound) == pytest.approx(float(truth), abs=1e-10)
        above += float(net(x)[0, 0] - net(x)[0, 1]) > truth
    assert above, "float64 itself was never above: the test shows nothing"


def test_a_cliff_that_no_gradient_knows_of_is_seen_by_the_certificate_alone() -> None:
    """1 − 0.2 tanh(x/2) falls off a cliff at ½ that no gradient near the sample knows of, and the estimate neither."""
    inner, outer = nn.Linear(1, 2), nn.Linear(2, 1)
    inner.weight.data.copy_(torch.tensor([[0.5], [400.0]]))
    inner.bias.data.copy_(torch.tensor([0.0, -200.0]))
    outer.weight.data.copy_(torch.tensor([[-0.2, -1.0]]))
    outer.bias.data.fill_(0.0)
    net = nn.Sequential(inner, nn.Tanh(), outer).requires_grad_(False)
    found = robustness(net, torch.zeros(2, 1), torch.tensor([1, 0]))
    assert found.certificate == "crown, slopes by ascent, coupled by the L2 ball"
    assert found.proved.tolist() == [True, True], "a clean error has radius 0, proved"
    assert 0.45 < found.certified[0] < 0.5, "the curve is flat on either side of its cliff"
    assert found.certified[1] == 0
    assert found.attacked.tolist() == pytest.approx([0.5, 0.0], abs=0.01)
    assert found.estimate.tolist() == pytest.approx([10.0, 0.0], rel=1e-3), "not cut off at the attack"
    assert found.contradictions == (), "an estimate contradicts nothing"


def test_a_contradiction_is_reported_and_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    place = importlib.import_module("undertow.adversary.certificates.proved_radii")
    net, x, y = digits()
    x, y = x[:3], net(x[:3]).argmax(1)
    true = robustness(net, x, y, exact=False)
    wrong = torch.tensor([0.5, 3.0, 0.5])
    monkeypatch.setattr(place, "certified_radii", lambda *_, **__: wrong.double() * true.attacked)
    monkeypatch.setattr(place, "refined_radii", lambda *given, **_: given[3])
    with pytest.warns(UserWarning, match=r"sample 1: certified [\d.]+ > attacked [\d.]+"):
        found = robustness(net, x, y, exact=False)
    assert torch.allclose(found.certified, wrong * true.attacked)
    assert len(found.contradictions) == 1
    assert f"{float(found.certified[1]):.6g}" in found.contradictions[0]
    assert f"{float(found.attacked[1]):.6g}" in found.contradictions[0]


def test_an_exact_radius_is_not_cut_off_at_an_attack_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    place = importlib.import_module("undertow.adversary.robustness")
    net, x = mlp(0), points(0, 2)
    y = decisions(net, x)
    true, attack = robustness(net, x, y), place._attack

    def too_short(search, *rest, **options) -> None:  # type: ignore[no-untyped-def]
        attack(search, *rest, **options)
        search.distance[0, 1] /= 2

    monkeypatch.setattr(place, "_attack", too_short)
    with pytest.warns(UserWarning, match="sample 1: exact"):
        found = robustness(net, x, y)
    assert torch.allclose(found.exact, true.exact, rtol=1e-9)


def test_examples_of_rounding_are_no_contradiction() -> None:
    """(v + u)·x − u·x with a large u is v·x on paper; in float32 it breaks elsewhere, by about ``rounding``."""
    inner, outer = nn.Linear(3, 2, bias=False), nn.Linear(2, 2, bias=False)
    net = nn.Sequential(inner, outer).requires_grad_(False)
    inner.weight.copy_(torch.tensor([[30001.0, 30002.0, 30002.0], [30000.0, 30000.0, 30000.0]]))
    outer.weight.copy_(torch.tensor([[1.0, -1.0], [0.0, 0.0]]))
    x = torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    y = torch.zeros(40, dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = robustness(net, x, y)
    truth = x.double() @ torch.tensor([1.0, 2.0, 2.0]).double() / 3
    assert (found.certified <= truth).all()
    assert torch.allclose(found.certified, truth, rtol=1e-8)
    assert bool((found.attacked < found.certified).any()), (
        "rounding never helped the attack: the test shows nothing"
    )
    assert (found.certified <= found.attacked + found.rounding).all()
    assert (found.rounding < 0.05 * truth).all()
    assert found.contradictions == ()


def test_robust_accuracy_does_not_cut_its_proof_off_at_the_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    place = importlib.import_module("undertow.adversary.accuracy")
    net, x, y = digits()
    x, y = x[:5], net(x[:5]).argmax(1)
    before = robust_accuracy(net, x, y, eps=[0.5, 1.0], attack="deepfool", certify=False)
    assert float(torch.as_tensor(before.value)[1]) < 1
    looks = iter([False, True])

    def wrong(_chain, x, y, *_):  # type: ignore[no-untyped-def]
        sure = next(looks)
        gaps = torch.full((len(x), 10), 1.0 if sure else -1.0).double().scatter(1, y[:, None], math.inf)
        return gaps.unsqueeze(0)

    monkeypatch.setattr(place, "gap_bounds_of", wrong)
    found = robust_accuracy(net, x, y, eps=[0.5, 1.0], attack="deepfool")
    assert torch.as_tensor(found.proved).tolist() == [0.0, 1.0]
    assert any("proved robust at ε = 1, broken at distance" in note for note in found.notes)


@pytest.mark.parametrize("shift", [pytest.param(0.0, marks=pytest.mark.full), 0.8])
def test_an_example_is_known_wherever_one_exists(shift: float) -> None:
    """With many neurons off no gradient leads anywhere; other samples, and the exact search, know of examples."""
    for seed in (2, 5, 8, 17):
        net, x = mlp(seed, inputs=3, width=6, outputs=3), points(seed + 1000, 4, 3)
        net[0].bias.sub_(shift)  # type: ignore[operator, union-attr]
        y = decisions(net, x)
        found = robustness(net, x, y, exact=True, seconds=20)
        known = found.exact.isfinite()
        assert found.attacked[known].isfinite().all()
        assert ((found.examples - x).norm(dim=1)[known] <= found.attacked[known] * (1 + 1e-9)).all()
        assert (net(found.examples[known]).argmax(1) != y[known])[found.attacked[known] > 0].all()
