"""Claims and their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import rankdata

from undertow.errors import InputError
from undertow.studies.bootstrap import _ranks, mean_interval, rank_interval
from undertow.studies.claims import CORRELATION, SHARE, Verdict, decide


@pytest.mark.parametrize("draw", ["normal", "skewed"])
@pytest.mark.parametrize("n", [5, 10])
def test_intervals_cover_as_often_as_they_promise(draw: str, n: int) -> None:
    generator = np.random.default_rng(0)
    mean = 0.0 if draw == "normal" else math.exp(0.125)
    covered = 0
    for _ in range(200):
        normal = generator.normal(size=n)
        found = mean_interval((normal if draw == "normal" else np.exp(normal / 2)).tolist())
        assert found is not None
        covered += found[0] <= mean <= found[1]
    # 95 % of 200 with a standard error of 3; the plain percentile interval gives about 166 at n = 5.
    assert covered >= 180


def test_intervals_do_not_depend_on_the_moment() -> None:
    values = [0.3, 0.1, 0.4, 0.15, 0.9]
    assert mean_interval(values) == mean_interval(values)


def test_intervals_of_shifted_and_scaled_values() -> None:
    values = np.array([0.3, 0.1, 0.4, 0.15, 0.9])
    low, high = mean_interval(values.tolist()) or (0, 0)
    shifted = mean_interval((100 + 3 * values).tolist())
    assert shifted == pytest.approx((100 + 3 * low, 100 + 3 * high))


@pytest.mark.parametrize("values", [[], [1.0], [1.0, float("nan"), 2.0, 3.0, 4.0]])
def test_no_interval_where_none_can_be_had(values: list[float]) -> None:
    assert mean_interval(values) is None
    assert decide(values, above=0.0).verdict is Verdict.UNDECIDED


def test_values_that_are_no_numbers_give_no_effect_but_a_reason() -> None:
    for nothing in (math.nan, None):
        found = decide([1.0, nothing, 2.0, 3.0, 4.0], above=0.0, note="effect: x")
        assert (found.effect, found.interval) == (None, None)  # NaN is no JSON
        assert found.note == "effect: x; not every seed has such a number"


def test_nothing_is_decided_on_a_number_that_cannot_be() -> None:
    with pytest.raises(InputError, match=r"1\.2 cannot be: it must lie between 0 and 1"):
        decide([0.9, 1.2, 0.9, 0.9, 0.9], above=0.5, within=SHARE)
    rounded = decide([-1 - 1e-12, -1.0, -1.0, -1.0, -1.0], below=0.0, within=CORRELATION)
    assert rounded.verdict is Verdict.HOLDS


def test_ties_do_not_hide_a_clear_answer() -> None:
    assert decide([1.0, 1.0, 1.0, 1.0, 0.9], above=0.0, within=(-1.0, 1.0)).verdict is Verdict.HOLDS
    assert decide([0.4, 0.5, 0.6, 0.5, 0.5], above=0.5).verdict is Verdict.UNDECIDED
    assert decide([1.0] * 5, above=1.0).verdict is Verdict.UNDECIDED


def test_verdicts() -> None:
    firm = [1.0, 1.1, 0.9, 1.05, 0.95]
    assert decide(firm, above=0.0).verdict is Verdict.HOLDS
    assert decide(firm, above=2.0).verdict is Verdict.FAILS
    assert decide(firm, above=1.0).verdict is Verdict.UNDECIDED
    assert decide(firm, below=2.0).verdict is Verdict.HOLDS
    assert decide(firm, below=0.5).verdict is Verdict.FAILS
    few = decide(firm[:4], above=0.0, note="effect: x")
    assert few.verdict is Verdict.UNDECIDED
    assert few.note == "effect: x; 4 seeds are too few, 5 are needed"
    ranked = decide([0.9, 1.0, 0.6, 1.0, 0.8], above=0.0, within=(-1.0, 1.0))
    assert ranked.interval is not None
    assert ranked.interval[1] == 1.0
    with pytest.raises(TypeError):
        decide(firm)


def test_rank_intervals_cover_the_correlation_behind_the_pairs() -> None:
    """Spearman's correlation of a bivariate normal is 6/π asin(r/2)."""
    generator = np.random.default_rng(0)
    truth, covered = 6 / math.pi * math.asin(0.6 / 2), 0
    for _ in range(100):
        one, noise = generator.normal(size=(2, 60))
        found = rank_interval([(one.tolist(), (0.6 * one + 0.8 * noise).tolist())])
        assert found is not None
        covered += found[0] <= truth <= found[1]
    assert covered >= 88


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    values = [3.0, 1.0, 3.0, 2.0, 3.0, 1.0]
    assert _ranks(values).tolist() == rankdata(values).tolist() == [5.0, 1.5, 5.0, 3.0, 5.0, 1.5]


def test_rank_intervals_average_groups() -> None:
    rising = ([1.0, 2.0, 2.0, 3.0, 4.0], [0.1, 0.2, 0.2, 0.5, 0.7])
    falling = (rising[0], [-value for value in rising[1]])
    assert rank_interval([rising]) == pytest.approx((1.0, 1.0))
    low, high = rank_interval([rising, falling]) or (1, -1)
    assert low <= 0 <= high
    assert rank_interval([]) is None
    assert rank_interval([([1.0, 2.0], [1.0, 2.0])]) is None
    assert rank_interval([([1.0, 1.0, 1.0], [1.0, 2.0, 3.0])]) is None
