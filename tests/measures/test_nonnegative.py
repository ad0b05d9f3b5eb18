"""Non-negative least squares from a Gram matrix, beside scipy's on the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from undertow.measures.nonnegative import nonnegative_least_squares


@pytest.mark.parametrize("units", [1.0, 1e9, 1e-9])
@pytest.mark.parametrize(("rows", "columns"), [(5, 3), (30, 100), (100, 10), (60, 2), (200, 150)])
def test_the_same_residual_as_on_the_whole_matrix(rows: int, columns: int, units: float) -> None:
    draw = np.random.default_rng(rows)
    matrix = (draw.normal(size=(rows, columns)) + 0.3) * np.exp(draw.normal(size=(rows, 1))) * units
    goal = draw.normal(size=columns) + 1
    found = nonnegative_least_squares(matrix @ matrix.T, matrix @ goal)
    assert found.converged
    assert found.value.min() >= 0
    oracle, norm = nnls(matrix.T, goal)
    assert np.linalg.norm(goal - found.value @ matrix) == pytest.approx(
        norm, abs=1e-9 * float(np.linalg.norm(goal))
    )
    if rows <= columns:  # otherwise several λ are as good
        assert found.value == pytest.approx(oracle, rel=1e-6, abs=1e-9 * oracle.max())


def test_equal_and_empty_columns_do_no_harm() -> None:
    matrix = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [-1.0, 1.0]])
    found = nonnegative_least_squares(matrix @ matrix.T, matrix @ np.array([2.0, 1.0]))
    assert found.value @ matrix == pytest.approx([2.0, 1.0])
    assert found.value[2] == 0


def test_a_start_changes_nothing_but_the_work() -> None:
    draw = np.random.default_rng(0)
    matrix = draw.normal(size=(80, 120)) + 0.5
    goal = np.ones(120)
    cold = nonnegative_least_squares(matrix @ matrix.T, matrix @ goal)
    warm = nonnegative_least_squares(matrix @ matrix.T, matrix @ goal, start=cold.value)
    assert warm.steps == 0
    assert warm.value == pytest.approx(cold.value, abs=1e-12)
    assert not nonnegative_least_squares(
        matrix @ matrix.T, matrix @ goal, start=np.zeros(80), max_steps=2
    ).converged
