"""Measures that give bounds say on which side of them the truth lies: against dense singular values."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from undertow.measures.energy import energy
from undertow.measures.rank import stable_rank
from undertow.probe.measures import Energy, StableRank

# So loose that Lanczos stops well before the norm it looks for.
RTOL = 0.1


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_the_stable_rank_lies_below_its_reading(generator: torch.Generator) -> None:
    matrix = torch.randn(1050, 1100, generator=generator, dtype=torch.float64)
    found = stable_rank(matrix, rtol=RTOL)
    values = torch.linalg.svdvals(matrix)
    truth = float(values.square().sum() / values[0] ** 2)
    assert found.value - found.error <= truth < (1 - 1e-6) * found.value
    assert StableRank.error_side == "below"


def test_the_energy_lies_above_its_reading(generator: torch.Generator) -> None:
    net = nn.Linear(400, 300, bias=False, dtype=torch.float64).requires_grad_(False)
    net.weight.copy_(torch.randn(300, 400, generator=generator, dtype=torch.float64))
    found = energy(net, torch.zeros(3, 400, dtype=torch.float64), rtol=RTOL)
    truth = float(torch.linalg.matrix_norm(net.weight, ord=2))
    assert (1 + 1e-6) * found.value < truth <= found.value + found.error
    assert Energy.error_side == "above"
