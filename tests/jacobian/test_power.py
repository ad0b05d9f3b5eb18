"""The power iteration baseline: the authors' own numbers, and the paper's printed algorithm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import undertow as ut
from undertow.core.networks import DenseChain, read_dense
from undertow.core.status import Status
from undertow.jacobian.layered import LayeredOperator
from undertow.jacobian.power import power_iteration

FIXTURE = Path(__file__).parents[1] / "fixtures" / "authors_power_iteration.npz"


def _layer(weight: np.ndarray) -> nn.Sequential:
    net = nn.Sequential(nn.Linear(weight.shape[1], weight.shape[0], bias=False), nn.ReLU())
    with torch.no_grad():
        net[0].weight.copy_(torch.from_numpy(weight))  # type: ignore[operator,union-attr]
    return net


@pytest.mark.parametrize("size", ["narrow", "square", "wide"])
@pytest.mark.parametrize("steps", [10, 30, 300])
def test_authors_form_reproduces_what_their_code_returned(size: str, steps: int) -> None:
    with np.load(FIXTURE) as stored:
        net, x = _layer(stored[f"{size}/W"]), torch.from_numpy(stored[f"{size}/X"])
        start = torch.from_numpy(stored[f"{size}/start_{steps}"])
        expected = torch.from_numpy(stored[f"{size}/norms_{steps}"])
        exact = torch.from_numpy(stored[f"{size}/exact"])
    layers = read_dense(net)
    assert isinstance(layers, DenseChain)
    operator = LayeredOperator.at([layers], x)
    found, _, _ = power_iteration(operator, start, form="authors", tolerance=1e-4, max_steps=steps)
    torch.testing.assert_close(found, expected, rtol=3e-7, atol=0)
    torch.testing.assert_close(ut.jacobian_norms(net, x).value, exact, rtol=1e-6, atol=0)


def test_paper_form_stops_by_relative_change() -> None:
    net = nn.Sequential(nn.Linear(40, 30, bias=False), nn.ReLU())
    x = torch.randn(6, 40, generator=torch.Generator().manual_seed(1))
    found = ut.jacobian_norms(net.double(), x.double(), method="power")
    exact = ut.jacobian_norms(net, x.double(), method="exact").value
    assert found.status is Status.HEURISTIC
    assert bool(torch.isinf(found.error).all())
    assert bool((found.value <= exact * (1 + 1e-9)).all())
    torch.testing.assert_close(found.value, exact, rtol=1e-3, atol=0)


@pytest.mark.parametrize("units", [1e-30, 1e-12, 1e12, 1e30])
def test_float32_in_any_units(units: float) -> None:
    """‖JᵀJu‖² is a fourth power of the norm, which float32 has no room for."""
    net = nn.Sequential(nn.Linear(40, 30, bias=False), nn.ReLU())
    x = torch.randn(6, 40, generator=torch.Generator().manual_seed(1))
    before = ut.jacobian_norms(net, x, method="power").value
    with torch.no_grad():
        net[0].weight.mul_(units)  # type: ignore[operator]
    found = ut.jacobian_norms(net, x, method="power").value
    torch.testing.assert_close(found / units, before, rtol=1e-4, atol=0)


def test_thirty_steps_are_off_by_a_percent_at_initialisation() -> None:
    net = nn.Sequential(nn.Linear(784, 256, bias=False), nn.ReLU())
    nn.init.normal_(net[0].weight, std=1 / 16)  # type: ignore[arg-type]
    x = torch.rand(64, 784)
    short = ut.jacobian_norms(net, x, method="power-authors")
    sure = ut.jacobian_norms(net, x)
    off = (sure.value - short.value) / sure.value
    assert float(off.max()) > 0.005  # what the error bound exists for
    assert bool((short.value <= sure.value + sure.error).all())
