"""What a finding says of one claim: the median seed, the sign test, the interval, and when nothing is decided."""

from __future__ import annotations

import math

import numpy as np
import pytest

from undertow.core.errors import InputError
from undertow.studies.kit.claim import CORRELATION, SHARE, Verdict, decide, decide_share

FIRM = [1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98, 1.07, 0.93, 1.01]


def test_verdicts() -> None:
    assert decide(FIRM, above=0.0).verdict is Verdict.HOLDS
    assert decide(FIRM, above=2.0).verdict is Verdict.FAILS
    assert decide(FIRM, above=1.0).verdict is Verdict.UNDECIDED
    assert decide(FIRM, below=2.0).verdict is Verdict.HOLDS
    assert decide(FIRM, below=0.5).verdict is Verdict.FAILS
    found = decide(FIRM, above=0.0, note="effect: x")
    assert found.effect == pytest.approx(1.005)
    assert (found.interval, found.coverage) == (
        (0.93, 1.07),
        1 - 22 / 1024,
    )  # the second of ten from either end
    assert (found.p, found.n, found.agree, found.against, found.ties) == (2 / 1024, 10, 10, 0, 0)
    assert found.note == "effect: x"
    with pytest.raises(TypeError):
        decide(FIRM)
    with pytest.raises(TypeError):
        decide(FIRM, above=0.0, below=1.0)


def test_at_ten_seeds_one_may_disagree_and_at_eight_none() -> None:
    assert decide([-5.0, *FIRM[:9]], above=0.0).verdict is Verdict.HOLDS
    assert decide([-5.0, -5.0, *FIRM[:8]], above=0.0).verdict is Verdict.UNDECIDED
    assert decide(FIRM[:8], above=0.0).verdict is Verdict.HOLDS
    assert decide([-5.0, *FIRM[:7]], above=0.0).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("values", [[2.0] * 5, FIRM[:5], [1.0], []])
def test_fewer_than_six_seeds_decide_nothing(values: list[float]) -> None:
    """Five equal values gave an interval of no width, and decided."""
    found = decide(values, above=0.0, note="effect: x")
    assert (found.verdict, found.p, found.n) == (Verdict.UNDECIDED, None, len(values))
    few = "1 seed is" if len(values) == 1 else f"{len(values)} seeds are"
    assert found.note == f"effect: x; {few} too few, 6 are needed"
    assert decide([2.0] * 6, above=0.0).verdict is Verdict.HOLDS


def test_five_values_show_how_seldom_their_range_covers() -> None:
    found = decide(FIRM[:5], above=0.0)
    assert (found.interval, found.coverage) == ((0.9, 1.1), 0.9375)


def test_a_tie_counts_for_neither_side_and_stays_in_n() -> None:
    found = decide([1.0] * 9 + [0.0], above=0.0)
    assert (found.verdict, found.p, found.ties, found.n) == (Verdict.HOLDS, 22 / 1024, 1, 10)
    found = decide([1.0] * 8 + [0.0] * 2, above=0.0)
    assert (found.verdict, found.p, found.ties) == (Verdict.UNDECIDED, 112 / 1024, 2)
    assert found.interval == (
        0.0,
        1.0,
    )  # the interval touches the line exactly where the test does not decide
    on = decide([1.0] * 10, above=1.0)
    assert (on.verdict, on.p, on.ties) == (Verdict.UNDECIDED, 1.0, 10)


def test_a_bound_that_is_attained_is_a_tie_whatever_its_last_digit() -> None:
    wobbling = [1.0 - 2e-16, 1.0, 1.0 + 2e-16] * 4
    for line in ({"above": 1.0}, {"below": 1.0}):
        assert decide(wobbling, **line).ties == 12  # type: ignore[arg-type]
    around = [1e-17, -3e-17, 2e-17, 5e-17, 1e-17, 4e-17, 1e-17]
    assert decide(around, above=0.0, within=CORRELATION).ties == 7
    assert (
        decide([1e-17] * 7, above=0.0).verdict is Verdict.HOLDS
    )  # of numbers of that size it is no rounding


@pytest.mark.parametrize("n", [6, 8, 9, 10, 13, 20])
def test_the_interval_and_the_test_agree(n: int) -> None:
    """The interval lies on one side of a line exactly where the sign test decides, ties with the line or not."""
    generator = np.random.default_rng(n)
    for _ in range(300):
        values = generator.integers(-2, 5, n).astype(float).tolist()
        found = decide(values, above=0.0)
        assert found.interval is not None
        assert found.p is not None
        beyond = found.interval[0] > 0 or found.interval[1] < 0
        assert beyond == (found.p <= 0.05) == (found.verdict is not Verdict.UNDECIDED)


@pytest.mark.parametrize("nothing", [math.nan, None, math.inf])
def test_values_that_are_no_numbers_give_no_effect_but_a_reason(nothing: float | None) -> None:
    found = decide([nothing, *FIRM], above=0.0, note="effect: x")
    assert (found.verdict, found.effect, found.interval, found.p) == (Verdict.UNDECIDED, None, None, None)
    assert found.n == 11
    assert found.note == "effect: x; 1 of 11 seeds have no such number"


def test_nothing_is_decided_on_a_number_that_cannot_be() -> None:
    with pytest.raises(InputError, match=r"1\.2 cannot be: it must lie between 0 and 1"):
        decide([0.9, 1.2, 0.9, 0.9, 0.9, 0.9], above=0.5, within=SHARE)
    rounded = decide([-1 - 1e-12, -1.0, -1.0, -1.0, -1.0, -1.0], below=0.0, within=CORRELATION)
    assert (rounded.verdict, rounded.interval) == (Verdict.HOLDS, (-1.0, -1.0))


def test_between_two_lines_both_tests_are_needed() -> None:
    inside = decide(FIRM, between=(0.5, 2.0))
    assert (inside.verdict, inside.p) == (Verdict.HOLDS, 2 / 1024)
    near = decide(FIRM, between=(0.5, 1.0))  # half of them beyond one line
    assert (near.verdict, near.line, near.side) == (Verdict.UNDECIDED, 1.0, "below")
    assert decide(FIRM, between=(2.0, 3.0)).verdict is Verdict.FAILS
    assert decide(FIRM, between=(-1.0, 0.5)).verdict is Verdict.FAILS
    assert decide(FIRM, between=(-1.0, 0.5)).line == 0.5
    assert decide(FIRM[:5], between=(0.5, 2.0)).verdict is Verdict.UNDECIDED


def test_between_two_lines_is_decided_falsely_no_more_often_than_with_one() -> None:
    """The median on the lower line: inside and outside are both false."""
    generator = np.random.default_rng(0)
    for width in (0.1, 0.5, 10.0):
        draws = generator.normal(size=(2000, 10))
        false = [
            decide(each.tolist(), between=(0.0, width)).verdict is not Verdict.UNDECIDED for each in draws
        ]
        assert np.mean(false) <= 22 / 1024 + 3 * 0.0033


def test_a_share_of_seeds_has_a_binomial_interval() -> None:
    found = decide_share([True] * 9 + [False], above=0.5)
    assert (found.verdict, found.effect, found.estimand) == (Verdict.HOLDS, 0.9, "share")
    assert found.interval == pytest.approx((0.5549838829718, 0.9974714214555))
    assert found.p == 22 / 1024
    # With ten seeds no share can be shown to exceed 0.95, whatever they do.
    assert decide_share([True] * 10, above=0.95).verdict is Verdict.UNDECIDED
    assert decide_share([False] * 10, above=0.95).verdict is Verdict.FAILS
    assert decide_share([False] * 10, below=0.5).verdict is Verdict.HOLDS
    assert decide_share([True] * 5, above=0.1).verdict is Verdict.UNDECIDED
    unknown = decide_share([True] * 9 + [None], above=0.5)
    assert (unknown.verdict, unknown.p, unknown.n) == (Verdict.UNDECIDED, None, 10)
    assert "1 of 10 seeds have no answer" in unknown.note
    assert decide_share([], above=0.5).note == "0 seeds are too few, 6 are needed"
    with pytest.raises(TypeError):
        decide_share([True])
