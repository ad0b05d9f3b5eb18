"""Claims that are judged together: how many verdicts are false, on a quick version of ``benchmarks/verdicts.py``."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from undertow.studies.kit.multiplicity import adjusted

_SEEDS = (6, 8, 10, 20)


def _benchmark() -> Any:
    path = Path(__file__).parents[2] / "benchmarks" / "verdicts.py"
    spec = importlib.util.spec_from_file_location("verdicts_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BENCHMARK = _benchmark()


def test_adjusted_p_are_those_of_scipy() -> None:
    generator = np.random.default_rng(0)
    for size in (1, 2, 7, 60):
        p = np.round(0.9 * generator.random(size), 2) + 0.001  # with ties
        assert adjusted(p.tolist()) == pytest.approx(stats.false_discovery_control(p).tolist())
    assert adjusted([]) == []
    ordered = adjusted(sorted(generator.random(20)))
    assert all(one <= other for one, other in pairwise(ordered))


@pytest.mark.parametrize("name", BENCHMARK.NULLS)
def test_no_more_than_5_percent_of_verdicts_alone_are_false(name: str) -> None:
    """1,000 samples: three standard errors are 2.1 %, and the exact sizes are 3.1, 0.8, 2.1 and 4.1 %."""
    exact = dict(zip(_SEEDS, (0.03125, 0.0078125, 0.021484375, 0.0414), strict=True))
    for n in _SEEDS:
        false = sum(BENCHMARK.false_alone(BENCHMARK.NULLS[name], n, samples=1000))
        assert false <= exact[n] + 3 * (exact[n] / 1000) ** 0.5, n


@pytest.mark.parametrize("correlation", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("true", [0, 5, 25])
def test_no_more_than_5_percent_of_verdicts_together_are_expected_to_be_false(
    true: int, correlation: float
) -> None:
    expected, _, found, alone = BENCHMARK.discoveries(true, correlation, 10, samples=200)
    assert expected <= 0.05
    if true:
        assert found > 0.7
        assert alone > (0.1 if true == 5 else 0.01)  # which is why they are judged together


def test_two_standard_deviations_are_seen_at_ten_seeds() -> None:
    right = stats.norm.cdf(2)
    assert stats.binom.sf(8, 10, right) > 0.97  # nine or ten of ten on the right side
    assert BENCHMARK.power(10, 2.0, samples=1000) >= 0.95
