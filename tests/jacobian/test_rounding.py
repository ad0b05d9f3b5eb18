"""Rounding is covered by the error: where layers cancel, saturate, are many or badly scaled, in float32 and float64."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.errors import ModelError
from undertow.core.status import Status
from undertow.jacobian.method import Method
from undertow.jacobian.perturbation import Noise
from undertow.jacobian.precisions import NetworkSamples
from undertow.jacobian.promotion import Promoting, double_of
from undertow.jacobian.rounding import Rounding, rounding_of
from undertow.measures.seam import collaborate

from ..model_cases import dense_norms


def inside(net: nn.Module, x: Tensor, **options: object) -> None:
    found = ut.jacobian_norms(net, x, **options)  # type: ignore[arg-type]
    true = dense_norms(copy.deepcopy(net).double(), x.double())
    assert bool(((found.value - true).abs() <= found.error).all())
    assert found.status.ok
    assert bool((found.error <= 1.02e-3 * found.value).all())


def steep(*layers: nn.Module, gain: float) -> nn.Sequential:
    net = nn.Sequential(*layers)
    with torch.no_grad():
        net[0].weight.mul_(gain)  # type: ignore[operator]
    return net


def cancelling(stretch: float, *between: nn.Module) -> nn.Sequential:
    u, v = (torch.linalg.qr(torch.randn(100, 100).double())[0] for _ in range(2))
    gains = torch.ones(100).double()
    gains[:5] = stretch
    net = nn.Sequential(nn.Linear(100, 100, bias=False), *between, nn.Linear(100, 100, bias=False))
    with torch.no_grad():
        net[0].weight.copy_(u @ gains.diag() @ v)  # type: ignore[operator]
        net[-1].weight.copy_(v.T @ gains.reciprocal().diag() @ u.T)  # type: ignore[operator]
    return net


def deep(depth: int, *, norm: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        linear = nn.Linear(24, 24)
        nn.init.orthogonal_(linear.weight, gain=1.5)
        layers += [linear, *([nn.LayerNorm(24)] if norm else []), nn.Tanh()]
    return nn.Sequential(*layers)


def small(scale: float) -> nn.Sequential:
    net = nn.Sequential(nn.Linear(20, 30, bias=False), nn.ReLU(), nn.Linear(30, 10, bias=False))
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(scale)
    return net


HARD: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "softmax of large logits": (lambda: steep(nn.Linear(20, 10), nn.Softmax(1), gain=10), 20),
    "softmax behind a hidden layer": (
        lambda: steep(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 10), nn.Softmax(1), gain=20),
        20,
    ),
    "steep sigmoids": (lambda: steep(nn.Linear(20, 40), nn.Sigmoid(), nn.Linear(40, 5), gain=40), 20),
    "one steep sigmoid": (lambda: steep(nn.Linear(20, 1), nn.Sigmoid(), gain=20), 20),
    "cancelling by a thousand": (lambda: cancelling(1e3), 100),
    "cancelling by 100,000": (lambda: cancelling(1e5), 100),
    "cancelling around a kink": (lambda: cancelling(1e5, nn.LeakyReLU(0.9999999)), 100),
    "sixty layers of tanh": (lambda: deep(60, norm=False), 24),
    "sixty layers, normalised": (lambda: deep(60, norm=True), 24),
    "scaled by 1e-22": (lambda: small(1e-22), 20),
    "scaled by 1e15": (lambda: small(1e15), 20),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("method", ["auto", "krylov"])
def test_float32_is_as_good_as_it_says(name: str, method: str) -> None:
    torch.manual_seed(0)
    make, size = HARD[name]
    inside(make(), torch.randn(30 if size == 20 else 8, size), method=method)


@pytest.mark.full
@pytest.mark.parametrize("norm", [False, True])
def test_a_hundred_and_twenty_layers(norm: bool) -> None:
    torch.manual_seed(0)
    inside(deep(120, norm=norm), torch.randn(8, 24))


def test_a_saturated_sigmoid_is_not_zero_without_an_error() -> None:
    """At z = 60 float64 has σ(z) = 1, and σ'(z) = 9e-27 is not what 1 − σ gives."""
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Sigmoid()).double()
    with torch.no_grad():
        net[0].weight.fill_(60.0)  # type: ignore[operator]
    found = ut.jacobian_norms(net, torch.ones(1, 1).double())
    assert abs(found.value.item() - 60 * math.exp(-60)) <= found.error.item()
    assert found.status is Status.ROUNDING
    assert "error" in found.status.sentence


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("below", [4.5, 6.0])
def test_the_tail_of_a_gelu_is_as_rounded_as_it_is(approximate: str, below: float) -> None:
    torch.manual_seed(0)
    first = nn.Linear(6, 9)
    net = nn.Sequential(first, nn.GELU(approximate), nn.Linear(9, 3)).eval()
    with torch.no_grad():
        first.bias.fill_(-below)
        first.weight.mul_(0.3)
    x = torch.randn(20, 6)
    found = ut.jacobian_norms(net, x)
    truth = ut.jacobian_norms(copy.deepcopy(net).double(), x.double())
    assert bool(((found.value - truth.value).abs() <= found.error + truth.error).all())


def test_a_constant_network_is_zero_exactly() -> None:
    net = nn.Sequential(nn.Linear(5, 80), nn.ReLU())
    with torch.no_grad():
        net[0].bias.fill_(-1e3)  # type: ignore[operator]
    found = ut.jacobian_norms(net, torch.randn(4, 5))
    assert found.value.tolist() == found.error.tolist() == [0.0] * 4
    assert found.status.ok


def test_a_run_that_breaks_down_is_repeated_in_float64() -> None:
    """In float32 these products are not those of any Jacobian: Lanczos on them grew to NaN, or 10⁸ times the norm."""
    torch.manual_seed(1)
    net = cancelling(1e5, nn.LeakyReLU(0.9999999))
    x = torch.randn(8, 100)
    found = ut.jacobian_norms(net, x, method="krylov")
    assert found.status is Status.CONVERGED
    assert bool((found.value < 1.1).all())


def test_noise_shows_what_float32_loses() -> None:
    x = torch.tensor([[30.0]], requires_grad=True)
    with Noise(torch.float32, x.device).mode():
        (slope,) = torch.autograd.grad(x.sigmoid(), x)
    assert 1e-9 < abs(slope.item()) < 1e-6  # without noise it is zero; in truth 1e-13


def test_noise_leaves_views_and_zeros_alone() -> None:
    x = torch.randn(4, 6).relu()
    with Noise(torch.float32, x.device).mode():
        assert torch.equal(x.view(6, 4).T, x.view(6, 4).T)
        assert torch.equal(x.clone(), x)
        assert bool(((x * 2 == 0) == (x == 0)).all())


def test_casts_inside_a_network_do_not_bring_float32_back() -> None:
    class Casts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.randn(3, 3)  # neither a parameter nor a buffer

        def forward(self, x: Tensor) -> Tensor:
            return (x @ self.weight).softmax(1, dtype=torch.float32).to(x.dtype)

    net = double_of(Casts())
    with Promoting() as mode:
        assert net(torch.randn(2, 3).double()).dtype is torch.float64
    assert mode.needed


def test_functions_and_closures_are_measured_in_float64_too() -> None:
    torch.manual_seed(0)
    net = steep(nn.Linear(20, 10), nn.Softmax(1), gain=10)
    x = torch.randn(40, 20)
    found = ut.jacobian_norms(lambda z: net(z), x)
    true = dense_norms(copy.deepcopy(net).double(), x.double())
    assert bool(((found.value - true).abs() <= found.error).all())


class ByPlace(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.register_buffer("gains", torch.arange(1.0, count + 1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.get_buffer("gains")[: len(x), None]


@pytest.mark.parametrize("chunk", [None, 3])
def test_a_network_that_knows_places_is_refused(chunk: int | None) -> None:
    with pytest.raises(ModelError, match="one by one"):
        ut.jacobian_norms(ByPlace(8), torch.randn(8, 100), chunk=chunk)


def test_one_row_that_is_special_is_found_among_many() -> None:
    net = ByPlace(300)
    net.get_buffer("gains").fill_(1.0)[250] = 2.0
    with pytest.raises(ModelError, match="place in the batch"):
        ut.jacobian_norms(net, torch.randn(300, 4))


def _one(row: Tensor, x: Tensor) -> float:
    return ut.jacobian_norms(lambda z: z * row, x).value.item()


def test_a_closure_over_one_row_per_sample_is_refused_and_the_remedy_works() -> None:
    mask = torch.arange(1.0, 9.0)[:, None]
    x = torch.randn(8, 5)
    with pytest.raises(ModelError, match="mask"):
        ut.jacobian_norms(lambda z: z * mask, x)
    norms = [_one(mask[i : i + 1], x[i : i + 1]) for i in range(8)]
    assert norms == pytest.approx(list(range(1, 9)))


def test_a_head_is_measured_where_the_tail_really_leads() -> None:
    """The head saturates, so that the rounding of its input shows in its norm."""
    torch.manual_seed(3)
    net = steep(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 10), nn.Softmax(1), gain=1.0)
    with torch.no_grad():
        net[2].weight.mul_(300)  # type: ignore[operator]
    x = torch.randn(20, 20)
    low = ut.collaboration(net, x, seam="2")
    high = ut.collaboration(copy.deepcopy(net).double(), x.double(), seam="2")
    assert abs(low.co_correlation - high.co_correlation) <= low.error + high.error
    assert low.energy_head == pytest.approx(high.energy_head, rel=2e-3)


def test_what_is_not_known_is_not_zero() -> None:
    known = ut.jacobian_norms(nn.Linear(3, 3), torch.randn(4, 3))
    unknown = ut.jacobian_norms(nn.Linear(3, 3), torch.randn(4, 3))
    unknown.value[1], unknown.error[1] = math.nan, math.inf
    for head, tail, whole in ((unknown, known, known), (known, unknown, known), (known, known, unknown)):
        found = collaborate(head, tail, whole)
        assert math.isnan(found.co_correlation)
        assert found.error == math.inf
        assert math.isnan(found.standard_error)


def _looked_at(
    dtype: torch.dtype, shift: float, negligible: float, *, decided: bool = False
) -> tuple[list[int], Rounding]:
    """Which draws of noise are asked for where each moves Jᵀv by a share, and what follows from them."""
    draws: list[int] = []

    def perturbed(draw: int) -> Callable[[Tensor], Tensor]:
        draws.append(draw)
        return lambda v: (2 + 2 * shift) * v

    found = rounding_of(
        lambda vectors: [2.0 * v for v in vectors],
        perturbed,
        like=torch.zeros(3, 50, dtype=dtype),
        risk=1e-5,
        negligible=negligible,
        decided=decided,
    )
    return draws, found


def test_one_draw_is_enough_where_float64_shows_next_to_nothing() -> None:
    few, found = _looked_at(torch.float64, 1e-14, 1e-7)
    assert few == [0]
    assert bool((found.error >= 2e-14).all())
    assert bool((found.error <= 1e-7 * found.most).all())
    everything, strict = _looked_at(torch.float64, 1e-14, 0.0)
    assert everything == [0, 1, 2]
    assert bool((strict.error <= found.error).all())  # what one draw shows is multiplied by more
    assert torch.equal(strict.most, found.most)


@pytest.mark.parametrize(
    ("dtype", "shift", "negligible"),
    [(torch.float64, 1e-9, 1e-7), (torch.float32, 1e-12, 1e-7), (torch.float64, 1e-14, 1e-13)],
)
def test_all_draws_are_looked_at_otherwise(dtype: torch.dtype, shift: float, negligible: float) -> None:
    assert _looked_at(dtype, shift, negligible)[0] == [0, 1, 2]


def test_where_values_are_in_float64_one_draw_serves_all_vectors_unless_it_shows_a_switch() -> None:
    few, found = _looked_at(torch.float32, 1e-6, 1e-7, decided=True)
    assert few == [0]
    every, same = _looked_at(torch.float32, 1e-6, 1e-7)
    assert every == [0, 1, 2]
    assert torch.equal(found.error, same.error)  # as many vectors as otherwise
    assert torch.equal(found.most, same.most)
    assert _looked_at(torch.float32, 1e-3, 1e-7, decided=True)[0] == [0, 1, 2]
    assert _looked_at(torch.float64, 1e-6, 1e-7, decided=True)[0] == [0, 1, 2]


def _convolutional() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Unflatten(1, (2, 8)), nn.Conv1d(2, 12, 3, padding=1), nn.ReLU(), nn.Conv1d(12, 12, 3), nn.ReLU(),
            nn.Conv1d(12, 12, 3), nn.Flatten(),
        ).eval()  # fmt: skip


def test_convolutions_on_the_cpu_are_measured_at_values_in_float64_from_the_beginning() -> None:
    net, x = _convolutional(), torch.randn(6, 16, generator=torch.Generator().manual_seed(0))
    samples = NetworkSamples(net, x)
    decided = samples.decided
    assert (decided.x.dtype, decided.products) == (torch.float64, torch.float32)
    assert decided.at(slice(0, 2)).decided
    assert decided.decided is decided
    assert {each.dtype for each in net.parameters()} == {torch.float32}
    assert NetworkSamples(net.double(), x.double()).decided.products is None
    linear = nn.Sequential(nn.Linear(16, 40), nn.Softplus(), nn.Unflatten(1, (1, 40)), nn.Conv1d(1, 2, 3))
    left = NetworkSamples(linear, x)
    assert left.decided is left


@pytest.mark.parametrize("method", ["exact", "krylov"])
def test_and_norms_are_those_of_dense_jacobians_in_float64(method: Method) -> None:
    net, x = _convolutional(), torch.randn(6, 16, generator=torch.Generator().manual_seed(0))
    found = ut.jacobian_norms(net, x, method=method, rtol=1e-4, keep_vectors=True)
    truth = dense_norms(_convolutional().double(), x.double())
    assert bool(((found.value - truth).abs() <= found.error).all())
    assert bool((found.error <= 1e-4 * truth).all())
    assert bool(found.converged.all())
    if method == "krylov":
        warm = ut.jacobian_norms(net, x, method=method, rtol=1e-4, start=found)
        assert bool(((warm.value - truth).abs() <= warm.error).all())


class ByDistance(nn.Module):
    """Tokens see each other by logarithms of their distance, as T5's: log 16 / log 4 is 2 but for a rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.heights = nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        distance = torch.arange(1, x.shape[1] + 1)
        bucket = (distance.float().log() / torch.tensor(4).log()).long()
        return (x * self.heights[bucket]).cumsum(1).tanh()


def test_what_is_made_of_integers_alone_is_not_moved() -> None:
    torch.manual_seed(0)
    net, x = ByDistance(), torch.randn(3, 80)
    found = ut.jacobian_norms(net, x)
    assert found.status.ok
    precise = copy.deepcopy(net).double()
    true = dense_norms(precise, x.double())
    assert bool(((found.value - true).abs() <= found.error).all())


def test_integers_that_numbers_are_written_into_are_no_longer_exact() -> None:
    x, thirds = torch.tensor([1.0, 3.0]), torch.tensor([1.0, 2.0]) / 3
    with Noise(torch.float32, x.device).mode():
        counts = torch.arange(2) + torch.zeros(2)
        assert torch.equal(counts, torch.tensor([0.0, 1.0]))
        assert torch.equal(torch.arange(1, 3).float() / 3, thirds)
        counts[1:].copy_(x[1:])
        moved = counts + 1
    assert moved.tolist() != [1.0, 4.0]
