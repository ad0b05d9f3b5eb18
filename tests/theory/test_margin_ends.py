"""Largest margins beside conditions of optimality that can be checked, and beside any other classifier."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from undertow.core.errors import InputError
from undertow.data.sparse_signs import sparse_signs
from undertow.theory.max_margin import max_margin


def largest(signed: np.ndarray, norm: int) -> np.ndarray:
    """argmin ‖w‖ subject to y_i ⟨w, x_i⟩ ≥ 1, from the rows y_i x_i."""
    found = max_margin(torch.from_numpy(signed), norm=norm)
    return np.asarray(found.direction / found.value)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("seed", range(4))
def test_no_other_classifier_has_a_larger_margin(seed: int, unit: float) -> None:
    signed = sparse_signs(n=12, d=20, k=3, seed=seed).details["signed"].double().numpy() * unit
    two, one = largest(signed, 2), largest(signed, 1)
    draw = np.random.default_rng(seed)
    for _ in range(500):
        size = 10 ** draw.uniform(-4, 0)
        for best, order in ((two, 2), (one, 1)):
            assert (signed @ best).min() == pytest.approx(1.0)
            other = best + size * draw.standard_normal(20) * np.abs(best).max()
            margin = (signed @ other).min() / np.linalg.norm(other, order)
            assert margin <= (1 + 1e-9) / np.linalg.norm(best, order)


def test_the_l2_solution_meets_its_conditions_of_optimality() -> None:
    signed = sparse_signs(n=12, d=20, k=3, seed=0).details["signed"].double().numpy()
    w = largest(signed, 2)
    support = signed[signed @ w < 1 + 1e-7]
    multipliers, *_ = np.linalg.lstsq(support.T, w, rcond=None)
    assert np.allclose(support.T @ multipliers, w, atol=1e-8)
    assert (multipliers > -1e-8).all()


@pytest.mark.parametrize("norm", [1, 2])
def test_points_that_no_line_separates_are_refused(norm: int) -> None:
    with pytest.raises(InputError, match="not separable"):
        largest(np.array([[1.0, 0.0], [-1.0, 0.0]]), norm)
