"""Samples where a maximum ties: no Jacobian is defined there, and both sides' lie within the error that is told."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from tests.model_cases import dense_norms
from undertow.core.status import Status
from undertow.jacobian.choices import chosen_otherwise, tie
from undertow.jacobian.precisions import NetworkSamples


class Along(nn.Module):
    """The largest of some numbers along an axis, written in one of several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "max":
            return x.flatten(2).max(2).values
        if self.way == "amax":
            return x.flatten(2).amax(2)
        if self.way == "sort":
            return x.flatten(2).sort(2).values[..., -3:].flatten(1)
        return x.flatten(2).topk(3, 2).values.flatten(1)


_CHOICES: dict[str, nn.Module] = {
    "2×2": nn.MaxPool2d(2),
    "3×3, overlapping": nn.MaxPool2d(3, 1, 1),
    "adaptive": nn.AdaptiveMaxPool2d(2),
    "in one dimension": nn.Sequential(nn.Flatten(2), nn.MaxPool1d(4)),
    "in three dimensions": nn.Sequential(nn.Unflatten(1, (1, 4)), nn.MaxPool3d((1, 2, 2))),
    **{way: Along(way) for way in ("max", "amax", "sort", "topk")},
}


def _tied(choice: nn.Module, outputs: int, seed: int, dtype: torch.dtype) -> tuple[nn.Module, Tensor]:
    """A network and a picture of one colour to the left, where what is chosen from is equal."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first, x = nn.Conv2d(1, 4, 3), torch.rand(1, 1, 6, 6)
        x[..., :5] = 0.5
        with torch.no_grad():  # the grey part's results are the largest
            first.bias.copy_(1 - 0.5 * first.weight.sum((1, 2, 3)))  # type: ignore[union-attr]
            x[..., 5] = 0.5 - 0.1 * torch.rand(6)
        width = choice(first(x)).flatten(1).shape[1]
        last = nn.Linear(width, outputs)
    return nn.Sequential(first, choice, nn.Flatten(), last).to(dtype).eval(), x.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("outputs", [1, 2, 70])
@pytest.mark.parametrize("name", _CHOICES)
def test_the_norms_on_both_sides_of_a_tie_are_within_the_error(
    name: str, outputs: int, dtype: torch.dtype
) -> None:
    net, x = _tied(_CHOICES[name], outputs, outputs, dtype)
    found = ut.jacobian_norms(net, x)
    assert found.status is Status.ROUNDING
    assert "tie" in found.status.sentence
    precise, generator = net.double(), torch.Generator().manual_seed(0)
    for _ in range(4):
        beside = x.double() + 1e-9 * torch.randn(x.shape, generator=generator, dtype=torch.float64)
        assert abs(found.value - dense_norms(precise, beside)) <= found.error


@pytest.mark.parametrize("outputs", [1, 10])
def test_heads_behind_a_tie_are_told_too(outputs: int) -> None:
    net, x = _tied(nn.MaxPool2d(2), outputs, 0, torch.float64)
    profile = ut.seam_profile(net, x)
    assert profile.status is Status.ROUNDING
    before, behind = profile.seams.index("0"), profile.seams.index("1")
    assert profile.error[before] > 1e-3  # the head holds the maximum, and so does the whole
    assert profile.seams[behind] == "1"


def test_without_a_tie_nothing_is_told() -> None:
    for seed in range(5):
        net, _ = _tied(nn.MaxPool2d(2), 1, seed, torch.float64)
        x = torch.rand(4, 1, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        found = ut.jacobian_norms(net, x)
        assert found.status is Status.EXACT
        torch.testing.assert_close(found.value, dense_norms(net, x))
        assert bool((found.error < 1e-9 * found.value).all())


def test_zeros_that_tie_behind_a_relu_have_one_slope_all_the_same() -> None:
    """The slope of a ReLU at rest is zero whichever place of it is taken."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 1)
    )
    x = torch.zeros(2, 1, 6, 6)
    x[:, :, 3:] = torch.rand(2, 1, 3, 6)
    assert ut.jacobian_norms(net.double(), x.double()).status is Status.EXACT


def test_zeros_have_the_slope_that_autograd_gives_them() -> None:
    """As a ReLU at rest has: a head that begins between a ReLU and its max-pooling would have no bound otherwise."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3))
    x = torch.randn(8, 1, 6, 6)
    assert bool((net[:3](x) == 0).any())
    assert ut.seam_profile(net, x, seams=["1"]).status.ok


def _convolutions(generator: torch.Generator) -> nn.Sequential:
    """Most weights in convolutions, so that float32 samples have values in float64; more outputs than a Gram matrix."""
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 24, 3), nn.Flatten())
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 3)
    return net.eval()


def _draws(net: nn.Module, x: Tensor, **options: Any) -> tuple[list[int], ut.JacobianNorms]:
    """Which draws of noise a measurement looked at."""
    draws: list[int] = []
    moved = NetworkSamples._moved

    def noting(self: NetworkSamples, chosen: Tensor, draw: int, *others: Any) -> Any:
        draws.append(draw)
        return moved(self, chosen, draw, *others)

    with mock.patch.object(NetworkSamples, "_moved", noting):
        return draws, ut.jacobian_norms(net, x, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_second_draw_is_taken_where_numbers_tie_and_nowhere_else(dtype: torch.dtype) -> None:
    """Windows of zeros behind a ReLU, which are everywhere, have one slope and do not count."""
    generator = torch.Generator().manual_seed(0)
    net = _convolutions(generator).to(dtype)
    x = torch.rand(3, 1, 10, 10, generator=generator).to(dtype)
    hidden = net[:2](x)
    assert bool((nn.functional.max_pool2d(hidden, 2) == 0).any())
    draws, found = _draws(net, x, method="krylov")
    assert draws == [0]
    assert found.status is Status.CONVERGED
    assert bool(((found.value - dense_norms(net, x)).abs() <= found.error).all())
    x[1] = 0.5
    draws, found = _draws(net, x, method="krylov")
    assert draws[:2] == [0, 1]
    assert found.converged.tolist() == [True, False, True]


@pytest.mark.parametrize("seed", range(6))
def test_ties_are_seen_where_values_are_in_float64_and_products_are_not(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    net = _convolutions(generator)
    x = torch.rand(1, 1, 10, 10, generator=generator)
    x[..., 2:8] = 0.3
    found = ut.jacobian_norms(net, x, method="krylov")
    precise = net.double()
    for _ in range(3):
        beside = x.double() + 1e-9 * torch.randn(x.shape, generator=generator, dtype=torch.float64)
        assert abs(found.value - dense_norms(precise, beside)) <= found.error


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_one_window_of_two_of_which_the_first_draw_takes_what_the_network_took(dtype: torch.dtype) -> None:
    """Noise of the first draw shows nothing then: it is the second one that does, if it is asked."""
    net = nn.Sequential(nn.Conv2d(1, 1, 3), nn.MaxPool2d((1, 2)), nn.Conv2d(1, 70, 1), nn.Flatten())
    with torch.no_grad():
        for index, parameter in enumerate(net.parameters()):
            parameter.copy_(torch.linspace(1, 2 + index, parameter.numel()).view_as(parameter))
    net, x = net.to(dtype).eval(), torch.ones(1, 1, 3, 4, dtype=dtype)
    x[..., 1, :] = 0.5
    assert bool((net[0](x).flatten().diff() == 0).all())
    draws, found = _draws(net, x, method="krylov")
    assert 1 in draws
    assert found.status is Status.ROUNDING
    precise, generator = net.double(), torch.Generator().manual_seed(0)
    for _ in range(4):
        beside = x.double() + 1e-9 * torch.randn(x.shape, generator=generator, dtype=torch.float64)
        assert abs(found.value - dense_norms(precise, beside)) <= found.error


def test_where_no_more_than_two_outputs_are_compared_all_draws_are_taken_anyway() -> None:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 2)).double()
    calls: list[object] = []
    net.register_forward_hook(lambda *_: calls.append(None))
    ut.jacobian_norms(net, torch.rand(3, 1, 6, 6, dtype=torch.float64))
    plain = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.Tanh(), nn.Flatten(), nn.Linear(16, 2)).double()
    others: list[object] = []
    plain.register_forward_hook(lambda *_: others.append(None))
    ut.jacobian_norms(plain, torch.rand(3, 1, 6, 6, dtype=torch.float64))
    assert len(calls) == len(others)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_numbers_tie_if_they_differ_by_roundings_and_are_not_zero(dtype: torch.dtype) -> None:
    pool, rounding = torch.ops.aten.max_pool2d_with_indices.default, torch.finfo(dtype).eps

    def ties(*numbers: float) -> bool:
        return tie(pool, (torch.tensor([[numbers]], dtype=dtype), [1, len(numbers)]), {})

    assert ties(1.0, 1.0)
    assert ties(1.0, 1.0 + 4 * rounding)
    assert ties(0.2, -3.0, 0.2)
    assert not ties(0.0, 0.0, -1.0)
    assert not ties(1.0, 1.1)
    assert not ties(1.0, 1.1, 1.0)  # what is behind does not matter
    assert tie(torch.ops.aten.amax.default, (torch.ones(2, dtype=dtype),), {})  # gives no places
    assert not tie(torch.ops.aten.relu.default, (torch.ones(2, dtype=dtype),), {})


@pytest.mark.parametrize(
    ("func", "arguments"),
    [
        (torch.ops.aten.max_pool2d_with_indices.default, ([2, 2],)),
        (torch.ops.aten.adaptive_max_pool2d.default, ([2, 2],)),
        (torch.ops.aten.max.dim, (1,)),
        (torch.ops.aten.max.dim, (-1, True)),
        (torch.ops.aten.topk.default, (2,)),
        (torch.ops.aten.sort.default, (0, True)),
        (torch.ops.aten.kthvalue.default, (2, 1)),
        (torch.ops.aten.median.dim, (2,)),
    ],
    ids=str,
)
def test_what_is_chosen_otherwise_has_the_values_as_they_are(func: Any, arguments: tuple[Any, ...]) -> None:
    x = torch.randn(3, 4, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    plain = func(x, *arguments)
    for upwards in (False, True):
        found = chosen_otherwise(func, (x, *arguments), {}, upwards=upwards)
        assert found is not None
        for ours, theirs in zip(found, plain, strict=True):
            assert torch.equal(ours, theirs)


def test_numbers_that_a_mask_has_taken_out_stay_out() -> None:
    x = torch.tensor([[1.0, -torch.inf, 1.0]], dtype=torch.float64)
    for upwards, place in ((False, 0), (True, 2)):
        found = chosen_otherwise(torch.ops.aten.max.dim, (x, 1), {}, upwards=upwards)
        assert found is not None
        assert found[0].item() == 1
        assert found[1].item() == place
