"""Theorems 5.3 and 5.5 term by term: against finite differences of ϱ, autograd, and sums made step by step."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from undertow.core.errors import ModelError
from undertow.measures.collaboration import collaboration
from undertow.models import Scaled, two_layer
from undertow.theory.growth_history import GrowthHistory
from undertow.theory.growth_network import growth_network_of
from undertow.theory.growth_terms import GrowthResult
from undertow.theory.linear_growth import error_weighted_input, linear_growth
from undertow.theory.mlp_growth import activation_overlap, mlp_growth, point_inputs
from undertow.theory.top_vectors import tail_norms, top_vectors

ACTIVATIONS = ("relu", "leaky-relu", "tanh", "gelu")
INPUTS, SAMPLES, POINTS, RATE = 5, 20, 7, 0.05


def make(activation: str, width: int = 6, seed: int = 0) -> tuple[nn.Sequential, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    net = two_layer(
        inputs=INPUTS,
        width=width,
        activation=activation,
        init=Scaled(q=0.25),
        dtype=torch.float64,
        generator=generator,
    )
    x = torch.randn(SAMPLES, INPUTS, generator=generator, dtype=torch.float64)
    y = (torch.rand(SAMPLES, generator=generator) > 0.4).double()
    return net, x / x.norm(dim=1, keepdim=True), y


def weight_of(net: nn.Module) -> Tensor:
    return net.get_parameter("hidden.weight")


def train(net: nn.Sequential, x: Tensor, y: Tensor, steps: int, *, refresh: int = 1) -> GrowthHistory:
    """Full-batch gradient descent by autograd, followed by the theory."""
    start = growth_network_of(net)
    points = x[:1] if start.linear else x[:POINTS]
    history = GrowthHistory(start, points, refresh=refresh)
    for _ in range(steps):
        loss = nn.functional.binary_cross_entropy_with_logits(net(x).flatten(), y)
        (gradient,) = torch.autograd.grad(loss, [weight_of(net)])
        weight_of(net).data -= RATE * gradient
        history.observe(weight_of(net).detach(), rate=RATE)
    return history


def growth_of(
    net: nn.Sequential, x: Tensor, y: Tensor, history: GrowthHistory, *, rate: float = RATE
) -> GrowthResult:
    now, start = growth_network_of(net), history.start.weight
    if now.linear:
        return linear_growth(now, x, y, start=start, learning_rate=rate)
    return mlp_growth(
        now,
        x,
        y,
        points=history.points,
        start=start,
        sums=history.sums,
        flow_time=history.flow_time,
        learning_rate=rate,
    )


def co_correlation(net: nn.Sequential, points: Tensor) -> float:
    return collaboration(net, points, seam="activation", method="exact").co_correlation


def moved(net: nn.Sequential, weight: Tensor) -> nn.Sequential:
    with torch.no_grad():
        weight_of(net).copy_(weight)
    return net


@pytest.mark.parametrize("activation", ["linear", *ACTIVATIONS])
@pytest.mark.parametrize("width", [4, 9])
@pytest.mark.parametrize("steps", [0, 12])
def test_the_exact_rate_is_the_derivative_of_co_correlation_along_the_flow(
    activation: str, width: int, steps: int
) -> None:
    net, x, y = make(activation, width)
    history = train(net, x, y, steps)
    growth = growth_of(net, x, y, history)
    points, weight = x[:POINTS], weight_of(net).detach().clone()
    assert growth.co_correlation == pytest.approx(co_correlation(net, points), rel=1e-10)
    direction, small = growth_network_of(net).direction(x, y).clone(), 1e-5
    ahead = co_correlation(moved(net, weight + small * direction), points)
    behind = co_correlation(moved(net, weight - small * direction), points)
    slope = (math.log(ahead) - math.log(behind)) / (2 * small)
    assert growth.exact == pytest.approx(slope, rel=1e-6, abs=1e-8)
    assert growth.exact == pytest.approx(growth.whole_rate - growth.tail_rate)
    # What one step does: the same quotient to one side, over the whole step.
    stepped = co_correlation(moved(net, weight + RATE * direction), points)
    assert growth.measured == pytest.approx((stepped / growth.co_correlation - 1) / RATE, rel=1e-8)


@pytest.mark.parametrize("activation", ["linear", *ACTIVATIONS])
def test_the_terms_add_up_to_the_exact_rate(activation: str) -> None:
    net, x, y = make(activation)
    growth = growth_of(net, x, y, train(net, x, y, 25))
    parts = growth.main + growth.replacement + growth.remaining + growth.inequality + growth.dropped
    assert parts == pytest.approx(growth.exact, rel=1e-10)
    assert (growth.dropped == 0) == (activation in ("linear", "relu", "leaky-relu"))
    assert (abs(growth.replacement) < 1e-12) == (activation == "linear")
    assert abs(growth.remaining) <= growth.remaining_bound
    assert abs(growth.replacement) <= growth.replacement_bound + 1e-12


@pytest.mark.parametrize("activation", ["linear", *ACTIVATIONS])
def test_a_step_of_gradient_descent_is_the_direction_of_lemma_b1_and_c1(activation: str) -> None:
    net, x, y = make(activation)
    loss = nn.functional.binary_cross_entropy_with_logits(net(x).flatten(), y)
    (gradient,) = torch.autograd.grad(loss, [weight_of(net)])
    now = growth_network_of(net)
    torch.testing.assert_close(now.direction(x, y), -gradient)
    if activation == "linear":
        torch.testing.assert_close(torch.outer(now.head, error_weighted_input(now, x, y)), -gradient)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_main_term_is_the_theorems_double_sum(activation: str) -> None:
    """Σ_τ (1 − aᵀv(τ)aᵀv(t)) E x̃*(τ)ᵀx̃*(t) from α̂_i, one loop per sum, as printed in the theorem."""
    net, x, y = make(activation)
    points, steps = x[:POINTS], 9
    past: list[tuple[Tensor, Tensor, Tensor]] = []

    def look() -> tuple[Tensor, Tensor, Tensor]:
        now = growth_network_of(net)
        weight, head = now.weight.clone(), now.head
        alpha = torch.empty(POINTS, SAMPLES, dtype=torch.float64)
        towards = torch.empty(POINTS, dtype=torch.float64)
        for p, point in enumerate(points):
            mask = now.activation.slope(weight @ point)
            left = torch.linalg.svd(mask[:, None] * weight)[0][:, 0]
            towards[p] = (left @ head).abs()
            for i, sample in enumerate(x):
                alpha[p, i] = (mask * now.activation.slope(weight @ sample)).mean()
        whole = (torch.linalg.svd(weight)[0][:, 0] @ head).abs()
        inputs = (alpha * (y - net(x).flatten().sigmoid()).detach()) @ x / SAMPLES
        return inputs, towards, whole

    history = train(net, x, y, 0)
    for _ in range(steps):
        past.append(look())
        step = growth_network_of(net).direction(x, y)
        moved(net, weight_of(net).detach() + RATE * step)
        history.observe(weight_of(net).detach(), rate=RATE)
    inputs, towards, whole = look()
    main = printed = 0.0
    for before, before_towards, before_whole in past:
        products = (before * inputs).sum(1)
        main += RATE * float(((1 - before_towards * towards) * products).mean())
        printed += RATE * float(((1 - before_whole * whole) * products).mean())
    growth = growth_of(net, x, y, history)
    assert growth.main * growth.norm == pytest.approx(main, rel=1e-8)
    assert growth.printed * growth.norm == pytest.approx(printed, rel=1e-8)


def test_the_linear_main_term_is_the_theorems_sum() -> None:
    net, x, y = make("linear")
    past = []
    history = train(net, x, y, 0)
    for _ in range(15):
        past.append(error_weighted_input(growth_network_of(net), x, y))
        moved(net, weight_of(net).detach() + RATE * torch.outer(history.start.head, past[-1]))
    now = error_weighted_input(growth_network_of(net), x, y)
    left, values, _ = torch.linalg.svd(weight_of(net).detach())
    aligned = 1 - (left[:, 0] @ history.start.head) ** 2
    main = RATE * sum(float(each @ now) for each in past) * float(aligned / values[0] ** 2)
    growth = growth_of(net, x, y, history)
    assert growth.main == pytest.approx(main, rel=1e-10)
    assert growth.norm == pytest.approx(float(values[0] ** 2))


def test_leaving_out_the_inequality_is_wrong_where_the_whole_shrinks() -> None:
    """Eq. 63 puts ‖W‖² for ‖aᵀW‖² below d‖aᵀW‖²/dt: a larger number when that is negative."""
    signs = []
    for seed in range(12):
        net, x, y = make("linear", seed=seed)
        growth = growth_of(net, x, y, train(net, x, y, 0))
        assert (growth.inequality < 0) == (growth.whole_rate < 0)
        assert growth.main == 0
        signs.append(growth.inequality < 0)
    assert 0 < sum(signs) < 12


def test_refreshing_seldom_changes_little_and_only_what_is_held() -> None:
    every, x, y = make("tanh", width=12)
    seldom, *_ = make("tanh", width=12)
    often = growth_of(every, x, y, train(every, x, y, 24))
    held = growth_of(seldom, x, y, train(seldom, x, y, 24, refresh=5))
    assert held.exact == often.exact
    assert held.main == pytest.approx(often.main, rel=0.02)
    assert held.main != often.main


def test_a_history_goes_on_from_its_state() -> None:
    net, x, y = make("gelu")
    history = train(net, x, y, 5, refresh=2)
    history.expect(growth_network_of(net).direction(x, y))
    again = GrowthHistory(history.start, history.points, refresh=2)
    again.restore(history.state())
    for _ in range(4):
        moved(net, weight_of(net).detach() + RATE * growth_network_of(net).direction(x, y))
        for each in (history, again):
            each.observe(weight_of(net).detach(), rate=RATE)
    assert again.steps == history.steps == 9
    assert history.update_gap == again.update_gap
    assert history.update_gap is not None
    assert history.update_gap < 1e-12
    for name, tensor in history.state().items():
        assert torch.equal(tensor, again.state()[name]), name


@pytest.mark.parametrize("shape", [(4, 7), (7, 4)])
@pytest.mark.parametrize("some_off", [False, True])
def test_top_vectors_are_those_of_a_full_decomposition(shape: tuple[int, int], some_off: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(shape, generator=generator, dtype=torch.float64)
    slopes = torch.rand(5, shape[0], generator=generator, dtype=torch.float64)
    slopes[1, ::2] = slopes[2, 2:] = 0  # neurons that are switched off
    if some_off:
        slopes[:, 0] = 0
    head = torch.randn(shape[0], generator=generator, dtype=torch.float64)
    top = top_vectors(weight, slopes, head)
    left, values, _ = torch.linalg.svd(slopes[:, :, None] * weight)
    torch.testing.assert_close(top.norm, values[:, 0])
    torch.testing.assert_close(tail_norms(weight, slopes), values[:, 0])
    assert ((top.left * left[:, :, 0]).sum(1).abs() - 1).abs().max() < 1e-10
    torch.testing.assert_close(top.left @ head, top.towards)
    assert (top.towards >= 0).all()
    dead = top_vectors(weight, torch.zeros_like(slopes), head)
    assert dead.norm.tolist() == tail_norms(weight, torch.zeros_like(slopes)).tolist() == [0.0] * 5
    assert dead.left.isfinite().all()


def test_the_overlap_of_independent_relu_neurons_is_the_arc_cosine_law() -> None:
    """For Gaussian w and points at angle θ, P(both active) = (π − θ)/2π; the error is that of m coin flips."""
    width, angle = 200_000, 1.0
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(width, 2, generator=generator, dtype=torch.float64)
    points = torch.tensor([[1.0, 0.0], [math.cos(angle), math.sin(angle)]], dtype=torch.float64)
    slopes = (points @ weight.T > 0).double()
    alpha, error = activation_overlap(slopes[:1], slopes[1:])
    share = (math.pi - angle) / (2 * math.pi)
    assert float(error) == pytest.approx(math.sqrt(share * (1 - share) / width), rel=0.01)
    assert abs(float(alpha) - share) < 4 * float(error)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_averaging_with_overlaps_is_one_product_with_the_direction(activation: str) -> None:
    net, x, y = make(activation, width=30)
    now = growth_network_of(net)
    slopes = now.slopes_at(x)
    alpha, _ = activation_overlap(slopes[:POINTS], slopes)
    torch.testing.assert_close(
        point_inputs(slopes[:POINTS], now.head, now.direction(x, y)), (alpha * now.errors(x, y)) @ x / len(x)
    )


class Own(nn.Module):
    elementwise = True

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return z.abs()


def test_networks_outside_the_theorems_are_refused() -> None:
    with pytest.raises(ModelError, match="about two-layer networks"):
        growth_network_of(nn.Linear(3, 1))
    with pytest.raises(ModelError, match=r"about two-layer networks.*Here '1' \(LayerNorm\) is neither"):
        growth_network_of(
            nn.Sequential(nn.Linear(3, 4, bias=False), nn.LayerNorm(4), nn.Linear(4, 1, bias=False))
        )
    head = nn.Linear(4, 1, bias=False)
    nn.init.constant_(head.weight, 0.5)
    signs = nn.Sequential(nn.Linear(3, 4, bias=False), Own(), head)
    with pytest.raises(ModelError, match=r"no derivatives of '1' \(Own\)"):
        growth_network_of(signs)
    with pytest.raises(ModelError, match="one logit and no biases"):
        growth_network_of(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)))
    with pytest.raises(ModelError, match=r"a_r = ±1/√m: use head='signs'"):
        growth_network_of(nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 1, bias=False)))
