"""Activations: value, slope and second derivative beside autograd's, their ranges, and what they become at infinity."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from undertow.core.activations import ACTIVATIONS, Activation, activation_of

MODULES: dict[str, nn.Module] = {
    **{name: kind() for name, kind in ACTIVATIONS.items()},
    "leaky-relu 0.3": nn.LeakyReLU(0.3),
    "leaky-relu −2": nn.LeakyReLU(-2.0),
    "gelu by tanh": nn.GELU(approximate="tanh"),
    "softplus β = 3": nn.Softplus(beta=3.0, threshold=5.0),
    "softplus β = 0.1": nn.Softplus(beta=0.1),
    "elu 0.5": nn.ELU(0.5),
    "elu −2": nn.ELU(-2.0),
    "celu 3": nn.CELU(3.0),
    "hard-tanh −2 … 5": nn.Hardtanh(-2.0, 5.0),
    "softshrink 2": nn.Softshrink(2.0),
}
EVERY = pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)


def _known(module: nn.Module) -> Activation:
    found = activation_of(module)
    assert found is not None
    return found


def _autograd(module: nn.Module, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    leaf = z.clone().requires_grad_()
    value = module(leaf)
    (slope,) = torch.autograd.grad(value.sum(), leaf, create_graph=True)
    second = torch.zeros_like(z)
    if slope.requires_grad and type(module) is not nn.Hardsigmoid:  # of which PyTorch has one derivative only
        (found,) = torch.autograd.grad(slope.sum(), leaf, allow_unused=True)
        second = second if found is None else found
    return value.detach(), slope.detach(), second


def _points(sigma: Activation) -> Tensor:
    z = torch.cat(
        [torch.linspace(-30, 30, 2003), torch.randn(500, generator=torch.Generator().manual_seed(0))]
    )
    z = z.double()
    return z[torch.stack([(z - kink).abs() > 1e-9 for kink in (*sigma.kinks, math.inf)]).all(0)]


def _rtol(sigma: Activation) -> float:
    return 1e-7 if sigma.name == "hard-sigmoid" else 1e-12  # PyTorch's 1/6 there has the digits of a float32


@EVERY
def test_value_slope_and_second_derivative_are_those_of_autograd(module: nn.Module) -> None:
    sigma = _known(module)
    z = _points(sigma)
    value, slope, second = _autograd(module, z)
    assert torch.equal(sigma.value(z), value)
    torch.testing.assert_close(sigma.slope(z), slope, rtol=_rtol(sigma), atol=1e-14)
    torch.testing.assert_close(sigma.second(z), second, rtol=1e-10, atol=1e-13)
    assert sigma.piecewise_linear == bool((second == 0).all())


@EVERY
def test_slopes_at_kinks_are_those_of_autograd(module: nn.Module) -> None:
    sigma = _known(module)
    z = torch.tensor([*sigma.kinks, 0.0], dtype=torch.float64)
    torch.testing.assert_close(sigma.slope(z), _autograd(module, z)[1], rtol=_rtol(sigma), atol=0)


@EVERY
def test_kinks_are_where_the_slope_jumps(module: nn.Module) -> None:
    """Every kink that is declared is one, and slopes are continuous (to 10⁻⁴ in 10⁻⁶) everywhere else."""
    sigma = _known(module)
    for kink in sigma.kinks:
        sides = sigma.slope(torch.tensor([kink - 1e-9, kink + 1e-9], dtype=torch.float64))
        assert abs(float(sides[0] - sides[1])) > 0.1
    z = torch.linspace(-8, 8, 16_000_001, dtype=torch.float64)[::997]
    z = z[torch.stack([(z - kink).abs() > 1e-3 for kink in (*sigma.kinks, math.inf)]).all(0)]
    assert float((sigma.slope(z + 1e-6) - sigma.slope(z)).abs().max()) < 1e-4 or "softplus" in sigma.name


@EVERY
def test_the_range_of_slopes_holds_and_is_reached(module: nn.Module) -> None:
    sigma = _known(module)
    z = torch.cat([torch.linspace(-60, 60, 400_001, dtype=torch.float64), torch.tensor([-1e9, 1e9]).double()])
    slope = sigma.slope(z)
    low, high = sigma.slope_range
    assert low <= float(slope.min()) <= low + 1e-2
    assert high >= float(slope.max()) >= high - 1e-2
    assert sigma.steepness == max(abs(low), abs(high))


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_derivatives_far_out_are_their_limits(module: nn.Module, dtype: torch.dtype) -> None:
    sigma = _known(module)
    far = torch.tensor([-math.inf, -1e30, -1e5, 1e5, 1e30, math.inf], dtype=dtype)
    slope, second = sigma.slope(far), sigma.second(far)
    assert slope.dtype == second.dtype == dtype
    assert bool(slope.isfinite().all())
    assert float(second.abs().max()) < 1e-14
    for side in (slope[:3], slope[3:]):
        assert float((side - side[1]).abs().max()) < 1e-9
    if not sigma.piecewise_linear:
        assert bool(sigma.slope(torch.tensor([math.nan], dtype=dtype)).isnan().all())


@EVERY
def test_homogeneous_is_what_scales_with_its_argument(module: nn.Module) -> None:
    sigma = _known(module)
    z = _points(sigma)
    assert bool(torch.allclose(sigma.value(8 * z), 8 * sigma.value(z))) == sigma.homogeneous


def test_every_name_makes_the_activation_it_names() -> None:
    assert {"relu", "leaky-relu", "linear", "tanh", "gelu", "sigmoid", "softplus", "elu", "silu"} <= set(
        ACTIVATIONS
    )
    assert {name: _known(kind()).name for name, kind in ACTIVATIONS.items()} == {
        name: name for name in ACTIVATIONS
    }


def test_values_are_never_computed_in_place() -> None:
    z = torch.tensor([-1.0, 1.0])
    _known(nn.ReLU(inplace=True)).value(z)
    assert z.tolist() == [-1.0, 1.0]


def test_subclasses_and_other_modules_are_not_believed() -> None:
    class Own(nn.ReLU):
        pass

    assert activation_of(Own()) is None
    assert activation_of(nn.Softmax(dim=1)) is None
    assert activation_of(nn.PReLU()) is None
    assert activation_of(nn.CELU(-1.0)) is None
