from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from undertow.core.pulled_back import pulled_back


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_to_the_last_bit_what_autograd_returns_with_slopes(dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 7), nn.LeakyReLU(0.1), nn.Linear(7, 3)).to(dtype)
    x = torch.randn(11, 5, generator=draw, dtype=dtype)
    slopes = (
        torch.randn(11, 3, generator=draw, dtype=dtype) * 1e20
    )  # sums overflow nowhere but in float32's square
    leaves = [*net.parameters(), torch.zeros(2, dtype=dtype, requires_grad=True)]
    found = pulled_back([net(x)], leaves, [slopes])
    wanted = torch.autograd.grad(net(x), leaves, slopes, allow_unused=True)
    assert found[-1] is None
    for a, b in zip(found[:-1], wanted[:-1], strict=True):
        assert a is not None
        assert torch.equal(a, b)


def test_derivatives_by_the_slopes_themselves() -> None:
    leaf, slopes = torch.tensor([2.0, 3.0], requires_grad=True), torch.zeros(2, requires_grad=True)
    (found,) = pulled_back([leaf**3], [leaf], [slopes], create_graph=True)
    assert found is not None
    (second,) = torch.autograd.grad(found.sum(), slopes)
    assert torch.equal(second, 3 * leaf.detach() ** 2)


def test_sympy_stays_where_it_is() -> None:
    code = (
        "import sys, torch; from undertow.core.pulled_back import pulled_back; "
        "leaf = torch.ones(2, requires_grad=True); pulled_back([leaf * 2], [leaf], [torch.ones(2)]); "
        "print('sympy' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"
