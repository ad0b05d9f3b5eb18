"""The trace of a Hessian: its interval holds, is as short as was asked for, and fits into memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.curvature.test_several_eigenvalues import SPECTRA, bowl
from undertow.core.errors import InputError
from undertow.core.status import Status
from undertow.curvature.hessian_trace import TraceResult, hessian_trace


def measured(matrix: Tensor, dtype: torch.dtype, **options: Any) -> TraceResult:
    def half(outputs: Tensor, _: Tensor) -> Tensor:
        return ((outputs @ matrix.to(outputs)) * outputs).sum(1) / 2

    net = nn.Linear(1, len(matrix), bias=False).to(dtype)
    return hessian_trace(net, torch.ones(1, 1, dtype=dtype), torch.zeros(1), loss=half, **options)


@pytest.mark.parametrize("kind", SPECTRA)
def test_the_interval_holds(kind: str) -> None:
    for seed in range(6):
        dtype = torch.float32 if seed % 2 else torch.float64
        matrix, truth = bowl(kind, seed, dtype)
        generator = torch.Generator().manual_seed(seed)
        found = measured(matrix, dtype, probes=64, max_probes=64, generator=generator)
        assert abs(found.value - float(truth.sum())) <= found.error


def test_probes_are_added_until_the_interval_is_short_enough() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(60, 40), nn.Tanh(), nn.Linear(40, 10))
    x, y = torch.randn(8, 60), torch.randint(0, 10, (8,))
    once = hessian_trace(net, x, y, loss="cross-entropy", rtol=0.02, max_probes=120)
    assert once.status is Status.MAX_STEPS
    found = hessian_trace(net, x, y, loss="cross-entropy", rtol=0.02)
    assert found.status.ok
    assert found.error <= 0.02 * found.value
    exact = hessian_trace(net, x, y, loss="cross-entropy", probes=10_000)
    assert exact.status is Status.EXACT
    for each in (once, found):
        assert abs(each.value - exact.value) <= each.error
    rough = hessian_trace(net, x, y, loss="cross-entropy", rtol=once.error / once.value * 1.5)
    assert rough.products < found.products


def test_little_memory_costs_precision_and_no_truth() -> None:
    matrix, truth = bowl("falling", 1, torch.float32)
    found = measured(matrix, torch.float32, memory_budget=16 * 4 * len(matrix), max_probes=120)
    plenty = measured(matrix, torch.float32, max_probes=120)
    assert abs(found.value - float(truth.sum())) <= found.error
    assert found.error > plenty.error


def test_inputs_in_tiny_units_have_a_trace() -> None:
    torch.manual_seed(0)
    net, x = nn.Linear(60, 5, bias=False), 1e-23 * torch.randn(30, 60)
    found = hessian_trace(net, x, torch.zeros(30, dtype=torch.long), loss="square")
    assert abs(found.value - 5 * float(x.double().square().sum()) / 30) <= found.error < 0.1 * found.value


def test_what_cannot_be_asked_for_is_refused() -> None:
    matrix, _ = bowl("random", 0, torch.float64)
    with pytest.raises(InputError, match="max_probes = 60"):
        measured(matrix, torch.float64, max_probes=60)
    with pytest.raises(InputError, match="rtol"):
        measured(matrix, torch.float64, rtol=0.0)
    with pytest.raises(TypeError, match="prbes"):
        measured(matrix, torch.float64, prbes=60)
