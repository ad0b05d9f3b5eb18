"""The binomial tests and intervals, against SciPy and against what they promise."""

from __future__ import annotations

import itertools

import pytest
from scipy import stats

from undertow.studies.kit.exact_tests import (
    at_least,
    binomial_test,
    median_interval,
    share_interval,
    sign_test,
)


def test_tails_and_tests_are_those_of_scipy() -> None:
    for n, hits, share in itertools.product((6, 10, 20), (0, 1, 5, 6), (0.5, 0.05, 0.9)):
        assert at_least(hits, n, share) == pytest.approx(stats.binom.sf(hits - 1, n, share), abs=1e-14)
    for n in (6, 9, 10):
        for k in range(n + 1):
            assert sign_test(k, n - k, n) == pytest.approx(stats.binomtest(k, n).pvalue)


@pytest.mark.parametrize("n", [1, 6, 10, 37])
def test_share_intervals_are_those_of_clopper_and_pearson(n: int) -> None:
    for hits in range(n + 1):
        found = stats.binomtest(hits, n).proportion_ci(method="exact")
        assert share_interval(hits, n) == pytest.approx((found.low, found.high), abs=1e-12)


@pytest.mark.parametrize("n", [6, 10, 20])
def test_a_share_interval_holds_the_lines_that_its_test_does_not_reject(n: int) -> None:
    for hits in range(n + 1):
        low, high = share_interval(hits, n)
        for line in (0.01, 0.2, 0.5, 0.77, 0.99):
            assert (low <= line <= high) == (binomial_test(hits, n, line) > 0.05)


@pytest.mark.parametrize("n", [2, 5, 6, 8, 10, 11, 20, 50])
def test_order_statistics_cover_as_often_as_they_say(n: int) -> None:
    """The values 0 … n−1 stand for n draws: below the median are the first j of them, with chance C(n, j)/2ⁿ."""
    found = median_interval(list(range(n)))
    assert found is not None
    low, high, coverage = found
    covered = sum(stats.binom.pmf(j, n, 0.5) for j in range(n + 1) if low < j <= high)
    assert covered == pytest.approx(coverage)
    assert coverage >= 0.95 or n < 6
    narrower = sum(stats.binom.pmf(j, n, 0.5) for j in range(n + 1) if low + 1 < j <= high - 1)
    assert narrower < 0.95 or n < 6
    assert median_interval([1.0]) is None


@pytest.mark.parametrize("n", [6, 8, 10, 20])
@pytest.mark.parametrize("on", [0.0, 0.1, 0.4, 0.5, 0.8, 1.0])
def test_no_more_than_5_percent_of_tests_are_false(n: int, on: float) -> None:
    """Added up exactly: values on the line with probability ``on``, above and below it as far as the median allows."""
    for above in {(1 - on) / 2, min(0.5, 1 - on)}:
        below = 1 - on - above
        false = sum(
            stats.multinomial.pmf([over, under, n - over - under], n, [above, below, on])
            for over in range(n + 1)
            for under in range(n + 1 - over)
            if sign_test(over, under, n) <= 0.05
        )
        assert false <= 0.05


def test_dropping_ties_would_test_something_else() -> None:
    """Values that are 1 with probability 0.4 and else 0 have the median 0; with the ties dropped it would be above."""
    n, dropped, kept = 20, 0.0, 0.0
    for ones in range(n + 1):
        chance = stats.binom.pmf(ones, n, 0.4)
        dropped += chance * (sign_test(ones, 0, ones) <= 0.05)
        kept += chance * (sign_test(ones, 0, n) <= 0.05)
    assert dropped > 0.8
    assert kept < 0.01
