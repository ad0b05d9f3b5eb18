"""Times of singular values against gradient descent on a product of diagonal matrices, where the equation is exact."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from undertow.core.errors import InputError
from undertow.theory.incremental_learning import growth_of_singular_value, half_time


def trained(ends: list[float], start: float, depth: int, rate: float, steps: int) -> torch.Tensor:
    """Singular values (steps, k) of a balanced diagonal product under gradient descent on ½‖W − S‖²."""
    target = torch.tensor(ends, dtype=torch.float64)
    layers = [torch.full_like(target, start ** (1 / depth)).requires_grad_() for _ in range(depth)]
    history = []
    for _ in range(steps):
        product = math.prod(layers[1:], start=layers[0])
        history.append(product.detach().clone())
        slopes = torch.autograd.grad(((product - target) ** 2).sum() / 2, layers)
        with torch.no_grad():
            for layer, slope in zip(layers, slopes, strict=True):
                layer -= rate * slope
    return torch.stack(history)


@pytest.mark.parametrize(("depth", "start"), [(2, 1e-4), (3, 1e-3), (4, 1e-2)])
def test_the_equation_is_that_of_a_balanced_product(depth: int, start: float) -> None:
    ends, rate = [3.0, 1.0], 2e-3
    steps = int(1.3 * half_time(1.0, start=start, depth=depth) / rate) + 500
    values = trained(ends, start, depth, rate, steps)
    for place, end in enumerate(ends):
        times, told = growth_of_singular_value(end, start=start, depth=depth)
        first = int((values[:, place] >= end / 2).nonzero()[0])
        assert first * rate == pytest.approx(half_time(end, start=start, depth=depth), rel=0.02)
        at = np.arange(steps) * rate
        within = at <= times[-1]
        difference = values[: within.sum(), place].numpy() - np.interp(at[within], times, told)
        assert np.abs(difference).max() <= 0.02 * end


def test_the_smaller_one_waits_longer_the_deeper_the_product() -> None:
    """Times of s and 2s are as 2 to 1 from a start of zero, and come nearer to that with every layer."""
    ratios = [half_time(1.0, start=1e-4, depth=n) / half_time(2.0, start=1e-4, depth=n) for n in (2, 3, 4)]
    assert 1.5 < ratios[0] < ratios[1] < ratios[2] < 2


@pytest.mark.parametrize(("end", "start", "depth"), [(1.0, 1.0, 2), (1.0, 0.0, 2), (1.0, 0.1, 1)])
def test_what_has_no_growth_is_refused(end: float, start: float, depth: int) -> None:
    with pytest.raises(InputError, match="start"):
        growth_of_singular_value(end, start=start, depth=depth)
