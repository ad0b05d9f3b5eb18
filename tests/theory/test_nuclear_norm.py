"""The solution of least nuclear norm: feasible, and no feasible matrix nearby is smaller."""

from __future__ import annotations

import pytest
import torch

from undertow.core.errors import InputError
from undertow.data.matrix_entries import matrix_entries
from undertow.theory.nuclear_norm import nuclear_completion


def _norm(matrix: torch.Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrix, "nuc"))


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("seed", range(3))
def test_no_feasible_matrix_has_a_smaller_nuclear_norm(seed: int, unit: float) -> None:
    data = matrix_entries(n=45, size=8, rank=2, seed=seed)
    matrix, seen = data.details["matrix"].double() * unit, data.details["seen"]
    found, moved = nuclear_completion(matrix, seen, rtol=1e-9)
    assert moved < 1e-9
    assert torch.equal(found[seen], matrix[seen])
    least = _norm(found)
    assert least <= _norm(matrix) * (1 + 1e-9)  # the truth is feasible too
    draw = torch.Generator().manual_seed(seed)
    for size in (1e-3, 1e-1, 1.0):
        for _ in range(20):
            other = torch.randn(8, 8, generator=draw, dtype=torch.float64).masked_fill(seen, 0.0)
            assert _norm(found + size * unit * other) >= least * (1 - 1e-7)


def test_with_all_entries_but_few_a_low_rank_matrix_is_found() -> None:
    data = matrix_entries(n=92, size=10, rank=1, seed=0)
    found, _ = nuclear_completion(data.details["matrix"], data.details["seen"], rtol=1e-10)
    assert torch.allclose(found, data.details["matrix"].double(), atol=1e-4)


def test_a_mask_must_be_one() -> None:
    with pytest.raises(InputError, match="a mask of its shape"):
        nuclear_completion(torch.eye(2), torch.ones(3, 3, dtype=torch.bool))
