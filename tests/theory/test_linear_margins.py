"""Largest margins beside conditions of optimality that can be checked, and beside any other classifier."""

from __future__ import annotations

import numpy as np
import pytest

from undertow.core.errors import InputError
from undertow.data.sparse_signs import sparse_signs
from undertow.theory.linear_margins import largest_l1_margin, largest_l2_margin


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("seed", range(4))
def test_no_other_classifier_has_a_larger_margin(seed: int, unit: float) -> None:
    signed = sparse_signs(n=12, d=20, k=3, seed=seed).details["signed"].double().numpy() * unit
    two, one = largest_l2_margin(signed), largest_l1_margin(signed)
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
    w = largest_l2_margin(signed)
    support = signed[signed @ w < 1 + 1e-7]
    multipliers, *_ = np.linalg.lstsq(support.T, w, rcond=None)
    assert np.allclose(support.T @ multipliers, w, atol=1e-8)
    assert (multipliers > -1e-8).all()


@pytest.mark.parametrize("find", [largest_l1_margin, largest_l2_margin])
def test_points_that_no_line_separates_are_refused(find) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="not separable"):
        find(np.array([[1.0, 0.0], [-1.0, 0.0]]))
