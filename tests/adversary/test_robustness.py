from __future__ import annotations

import importlib
import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack

from tests.adversary.cases import Sine, decisions, digits, mlp, points
from undertow.adversary import Classifier, robustness
from undertow.adversary.certificates.bracket import Reach
from undertow.adversary.certificates.certified import certified_radii, gap_bounds
from undertow.adversary.certificates.network_graph import graph_of
from undertow.adversary.certificates.score_gaps import ScoreGaps
from undertow.core.deadline import Deadline, TimeUp


def _chain(net: nn.Module, x: Tensor):  # type: ignore[no-untyped-def]
    graph = graph_of(Classifier(net), net, x)
    assert graph is not None
    return graph


@pytest.mark.parametrize(
    ("norm", "bounds", "seeds"),
    [
        (2, None, 6),
        (math.inf, (-1.0, 1.0), 6),
        *(
            pytest.param(norm, bounds, 13, marks=pytest.mark.full)
            for norm in (2, math.inf)
            for bounds in (None, (-1.0, 1.0))
        ),
    ],
)
def test_certified_exact_attacked_are_in_order_on_random_nets(
    norm: float, bounds: tuple[float, float] | None, seeds: int
) -> None:
    """24 or 52 nets for each norm with or without a box, 208 in all, three samples each."""
    finished = tight = 0
    for outputs, width, slope in ((1, 4, 0.0), (2, 10, 0.0), (3, 7, 0.2), (4, 6, 0.0)):
        nets = [mlp(100 * outputs + seed, width=width, outputs=outputs, slope=slope) for seed in range(seeds)]
        x = points(outputs, 3)
        y = decisions(nets[0], x)
        found = robustness(nets, x, y, norm=norm, bounds=bounds, seconds=5.0)
        # without the attack's result as a ceiling, which would hide a wrong certificate
        certified = torch.stack([certified_radii(_chain(net, x), x, y, float(norm), bounds) for net in nets])
        assert bool((certified <= found.attacked).all())
        done = torch.tensor([[status == "exact" for status in each] for each in found.status])
        certified = torch.where(found.attacked > 0, certified, 0.0)
        assert torch.allclose(found.certified, certified, rtol=1e-8), "cut off at the attack"
        assert bool(((found.certified <= found.exact) | ~done).all())
        assert bool(((found.exact <= found.attacked * (1 + 1e-9)) | ~done).all())
        assert found.contradictions == ()
        some = done & (found.attacked > 0)
        finished += int(some.sum())
        tight += int((found.attacked <= 1.01 * found.exact)[some].sum())
    assert finished >= 4 * seeds  # beside the errors of the other nets
    assert tight >= 0.75 * finished  # the attack finds the nearest example most of the time


def test_exact_l2_radius_against_enumeration_of_activation_patterns() -> None:
    for seed in range(6):
        net = mlp(seed, inputs=3, width=5, outputs=2, slope=0.1 * (seed % 2))
        x = points(seed + 50, 2, 3)
        y = decisions(net, x)
        found = robustness(net, x, y)
        for index in range(2):
            slow = _enumerated(net, x[index], int(y[index]))
            assert float(found.exact[index]) == pytest.approx(slow, rel=1e-5)


def _enumerated(net: nn.Sequential, x: Tensor, label: int) -> float:
    """min ‖δ‖ over every activation pattern, each a quadratic program for a general solver."""
    first, last = net[0], net[2]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    slope = net[1].negative_slope if isinstance(net[1], nn.LeakyReLU) else 0.0
    W, b, V, c = (v.numpy() for v in (first.weight, first.bias, last.weight, last.bias))
    a, shift, point = V[label] - V[1 - label], c[label] - c[1 - label], x.numpy()
    best = math.inf
    for signs in itertools.product([-1.0, 1.0], repeat=len(b)):
        pattern = np.array(signs)
        gain = np.where(pattern > 0, 1.0, slope)
        normal, offset = (a * gain) @ W, (a * gain) @ (W @ point + b) + shift
        rows = np.vstack([pattern[:, None] * W, -normal])
        sides = np.concatenate([pattern * (W @ point + b), [-offset]])
        for start in (np.zeros(3), -normal * offset / max(normal @ normal, 1e-9)):
            result = minimize(
                lambda d: d @ d,
                start,
                jac=lambda d: 2 * d,
                constraints=[
                    {"type": "ineq", "fun": lambda d, r=rows, s=sides: r @ d + s, "jac": lambda _, r=rows: r}
                ],
                method="SLSQP",
                options={"ftol": 1e-14, "maxiter": 200},
            )
            if result.success and (rows @ result.x + sides).min() > -1e-7:
                best = min(best, float(np.sqrt(result.fun)))
    return best


def test_a_linear_network_has_its_radius_in_closed_form() -> None:
    net = nn.Sequential(nn.Linear(5, 3)).double().requires_grad_(False)
    x = points(4, 20, 5)
    y = decisions(net, x)
    weight, out = net[0].weight, net(x)
    assert isinstance(weight, Tensor)
    for norm, dual in ((1, math.inf), (2, 2), (math.inf, 1)):
        gaps = out.gather(1, y[:, None]) - out
        sizes = torch.linalg.vector_norm(weight[y][:, None] - weight[None], dual, dim=2)
        expected = torch.where(gaps > 0, gaps / sizes, math.inf).amin(1)
        found = robustness(net, x, y, norm=norm)
        assert found.certificate == "linear-exact"
        for radius in (found.certified, found.exact, found.attacked):
            assert torch.allclose(radius, expected, rtol=2e-5)


@pytest.mark.parametrize("norm", [2, math.inf])
def test_linear_bounds_hold_at_sampled_points_of_deep_and_convolutional_nets(norm: float) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        deep = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 7), nn.LeakyReLU(0.1), nn.Linear(7, 3))
        conv = nn.Sequential(
            nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(3, 2, 2), nn.ReLU(),
            nn.Flatten(), nn.Linear(18, 4),
        )  # fmt: skip
        conv(torch.randn(16, 1, 8, 8))
        cases = [
            (deep.double().eval(), torch.randn(5, 6).double()),
            (conv.double().eval(), torch.randn(5, 1, 8, 8).double()),
        ]
        for net, x in cases:
            y = net(x).argmax(1)
            eps = torch.linspace(0.01, 0.5, 5).double()
            bounds = gap_bounds(_chain(net, x), x, y, eps, norm)
            for _ in range(200):
                noise = torch.randn_like(x) if norm == 2 else torch.randn_like(x).sign()
                size = torch.linalg.vector_norm(noise.flatten(1), norm, dim=1)
                shape = (-1, *[1] * (x.ndim - 1))
                out = net(x + noise * (eps / size).reshape(shape)).detach()
                assert bool(
                    (
                        out.gather(1, y[:, None]) - out
                        >= bounds.where(bounds.isfinite(), torch.zeros(()).double()) - 1e-9
                    ).all()
                )
            # at ε = 0 the bound is the gap itself
            out = net(x).detach()
            exact = gap_bounds(_chain(net, x), x, y, 0 * eps, norm)
            assert torch.allclose(
                exact[exact.isfinite()], (out.gather(1, y[:, None]) - out)[exact.isfinite()]
            )


@pytest.mark.parametrize("factor", [1e-3, 1e3])
@pytest.mark.parametrize("norm", [2, math.inf])
def test_radii_do_not_depend_on_the_scale_of_the_logits(factor: float, norm: float) -> None:
    net = mlp(5, inputs=6, width=10, outputs=4)
    scaled = mlp(5, inputs=6, width=10, outputs=4)
    last = scaled[2]
    assert isinstance(last, nn.Linear)
    last.weight.mul_(factor)
    last.bias.mul_(factor)
    x = points(6, 15, 6)
    y = decisions(net, x)
    one, other = robustness(net, x, y, norm=norm), robustness(scaled, x, y, norm=norm)
    for name in ("certified", "attacked", "exact"):
        assert torch.allclose(getattr(one, name), getattr(other, name), rtol=1e-2, equal_nan=True)


def test_a_network_of_unknown_layers_gets_an_estimate_that_says_so() -> None:
    x = points(0, 6)
    net = nn.Sequential(nn.Linear(4, 8), Sine(), nn.Linear(8, 2)).double().requires_grad_(False)
    found = robustness(net, x, decisions(net, x))
    assert (set(found.status), found.share_proved) == ({"not-tried"}, 0.0)
    assert found.certificate == "none: the operation sin has no known linear bounds"
    assert not found.proved.any()
    assert (found.certified == 0).all(), "an estimate is no proof"
    assert ((found.estimate > 0) & found.estimate.isfinite()).all()


def test_errors_have_radius_zero_and_time_limits_are_honest() -> None:
    net, x, y = digits()
    wrong = (y[:4] + 1) % 10
    found = robustness(net, x[:4], wrong, bounds=(0.0, 1.0))
    assert float(found.attacked.max()) == float(found.certified.max()) == float(found.exact.max()) == 0.0
    rushed = robustness(net, x[:4], y[:4], bounds=(0.0, 1.0), exact=True, seconds=0.0)
    right = net(x[:4]).argmax(1) == y[:4]
    assert bool(rushed.exact[right].isnan().all())
    assert {status for status, ok in zip(rushed.status, right, strict=True) if ok} == {"time-limit"}


def test_members_share_one_call() -> None:
    nets = [mlp(seed, outputs=1) for seed in range(3)]
    x = points(9, 5)
    y = decisions(nets[0], x)
    found = robustness(nets, x, y)
    assert found.attacked.shape == found.certified.shape == found.exact.shape == (3, 5)
    assert torch.allclose(found.exact[1], robustness(nets[1], x, y).exact, rtol=1e-6)


@pytest.mark.parametrize("norm", [2, math.inf])
def test_samples_that_are_all_zero_get_a_finite_radius_where_no_attack_succeeds(norm: float) -> None:
    inner, outer = nn.Linear(2, 1), nn.Linear(1, 1)
    net = nn.Sequential(inner, nn.ReLU(), outer).double().requires_grad_(False)
    inner.weight.copy_(torch.tensor([[1.0, 0.0]]))
    inner.bias.fill_(-5.0)  # flat around 0, where gradients vanish; wrong from x₁ = 6 on
    outer.weight.fill_(-1.0)
    outer.bias.fill_(1.0)
    found = robustness(net, torch.zeros(1, 2).double(), torch.tensor([1]), norm=norm)
    assert 5.99 < float(found.certified) <= 6.0
    assert float(found.exact) == pytest.approx(6.0)


def test_a_linear_layer_may_act_on_the_last_of_several_axes() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        each, head, wide = nn.Linear(4, 3), nn.Linear(6, 3), nn.Linear(8, 6)
        x = torch.randn(3, 2, 4, dtype=torch.float64)
    net = nn.Sequential(each, nn.ReLU(), nn.Flatten(), head).double().requires_grad_(False)
    flat = nn.Sequential(wide, nn.ReLU(), head).double().requires_grad_(False)
    wide.weight.copy_(torch.block_diag(each.weight, each.weight))
    wide.bias.copy_(each.bias.repeat(2))
    y = decisions(flat, x.flatten(1))
    found, same = robustness(net, x, y), robustness(flat, x.flatten(1), y)
    assert torch.allclose(found.exact, same.exact, rtol=1e-6)
    assert torch.allclose(found.certified, same.certified, rtol=1e-3)
    assert found.proved.all()


def test_one_logit_may_come_without_its_axis() -> None:
    net, x = mlp(3, outputs=1), points(3, 4)
    y = decisions(net, x)
    found = robustness(nn.Sequential(net, nn.Flatten(0)), x.clone().requires_grad_(), y)
    assert found.proved.all()
    assert not found.certified.requires_grad
    assert torch.allclose(found.certified, robustness(net, x, y).certified, rtol=1e-3)


def test_autocast_around_the_call_changes_nothing() -> None:
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 3)), torch.randn(8, 6)
    y = net(x).argmax(1)
    alone = robustness(net, x, y, exact=False, seconds=math.inf)
    with torch.autocast("cpu", torch.bfloat16):
        within = robustness(net, x, y, exact=False, seconds=math.inf)
    assert torch.equal(alone.attacked, within.attacked)
    assert torch.equal(alone.certified, within.certified)


def test_refinement_keeps_what_was_proved_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that stands still until the first longer radius is proved, and is over right behind it."""
    place = importlib.import_module("undertow.core.deadline")
    reach_of, now, proofs = ScoreGaps.reach, 0.0, 0

    def counted(self: ScoreGaps, radius: Tensor) -> Reach:
        nonlocal now, proofs
        found = reach_of(self, radius)
        if any(isinstance(mode, Deadline) for mode in _get_current_function_mode_stack()):
            proofs += 1
            now = 100.0 if proofs == 4 else 0.0
        return found

    monkeypatch.setattr(ScoreGaps, "reach", counted)
    monkeypatch.setattr(place.time, "perf_counter", lambda: now)
    net, x = mlp(0), points(0, 2)
    y = decisions(net, x)
    whole = robustness(net, x, y, exact=False, attack="fast", seconds=math.inf)
    plain = robustness(net, x, y, exact=False, attack="fast", refine=False)
    assert proofs == 0
    cut = robustness(net, x, y, exact=False, attack="fast", seconds=50.0)
    assert proofs == 4
    assert cut.certificate.endswith("until time was up")
    assert "time" not in whole.certificate
    assert bool((plain.certified < cut.certified).any())
    assert bool((plain.certified <= cut.certified).all())
    assert bool((cut.certified <= whole.certified * (1 + 1e-6)).all())


def test_a_deadline_around_it_is_not_taken_for_its_own() -> None:
    net, x = mlp(0), points(0, 2)
    with pytest.raises(TimeUp), Deadline(0.0):
        robustness(net, x, decisions(net, x), exact=False, seconds=1000.0)
