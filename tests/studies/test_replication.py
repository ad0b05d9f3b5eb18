"""Two ledgers side by side, and what the first one predicts of the second."""

from __future__ import annotations

import numpy as np
import pytest

from undertow.studies.kit.claim import Claim, Finding, Verdict, decide, decide_share
from undertow.studies.kit.exact_tests import sign_test
from undertow.studies.kit.ledger import Entry, Family
from undertow.studies.kit.replication import Change, chances, compare, spread

FAMILY = Family(claims=4, decided=4, decided_alone=4, expected_false_alone=0.1, complete=True)
CLAIM = Claim("T", "a claim", "here", lambda frame: decide([float(len(frame))], above=0.0))


def entry(
    id: str, finding: Finding, *, verdict: Verdict | None = None, check: bool = False, seeds: int = 0
) -> Entry:
    claim = Claim(id, f"{id} is so.", "here", CLAIM.test, check=check)
    numbers = tuple(range(seeds, seeds + finding.n))
    return Entry(
        claim, "toy", "paper", "smoke", finding, verdict or finding.verdict, FAMILY, finding.p, "own", numbers
    )


def seeds(agree: int, n: int = 10) -> Finding:
    return decide([1.0] * agree + [-1.0] * (n - agree), above=0.0)


def test_the_gravest_change_comes_first() -> None:
    first = [
        entry("T-same", seeds(10)),
        entry("T-lost", seeds(10)),
        entry("T-turned", seeds(10)),
        entry("T-gained", seeds(5)),
        entry("T-gone", seeds(9)),
        entry("T-waits", seeds(10)),
        entry("T-check", seeds(10), verdict=Verdict.KEPT, check=True),
    ]
    waiting = Finding(Verdict.UNDECIDED, 1.0, None, 3, "7 of 10 trials are missing")
    second = [
        entry("T-same", seeds(9), seeds=100),
        entry("T-lost", seeds(6), seeds=100),
        entry("T-turned", seeds(0), seeds=100),
        entry("T-gained", seeds(10), seeds=100),
        entry("T-waits", waiting, seeds=100),
        entry("T-check", seeds(9), verdict=Verdict.VIOLATED, check=True, seeds=100),
        entry("T-new", seeds(9), seeds=100),
    ]
    found = compare(first, second)
    listed = [(pair.first.claim.id, pair.change) for pair in found.pairs]
    assert listed == [
        ("T-check", Change.OPPOSITE),
        ("T-turned", Change.OPPOSITE),
        ("T-lost", Change.LOST),
        ("T-gained", Change.GAINED),
        ("T-waits", Change.UNJUDGED),
        ("T-same", Change.SAME),
    ]
    assert (len(found.judged), found.alone, found.shared_seeds) == (3, (1, 1), ())
    row = found.row()
    assert (row["opposite"], row["opposite_share"], row["undecided"]) == (1, pytest.approx(1 / 3), 1)
    assert (row["newly_decided"], row["not_judged"], len(row["changes"])) == (1, 1, 5)
    assert row["changes"][1]["first"]["verdict"] == "holds"
    assert row["changes"][1]["second"]["p"] == seeds(0).p


def test_seeds_that_both_have_are_told() -> None:
    found = compare([entry("T", seeds(10))], [entry("T", seeds(9), seeds=5)])
    assert found.shared_seeds == (5, 6, 7, 8, 9)
    assert compare([entry("T", seeds(10))], [entry("T", seeds(10))]).pairs == ()  # the very same set


@pytest.mark.parametrize("agree", [10, 9])
def test_a_prediction_is_the_sign_tests_power_over_what_the_share_may_be(agree: int) -> None:
    """Against shares drawn from Jeffreys' posterior, and seeds drawn from those."""
    generator = np.random.default_rng(0)
    shares = generator.beta(agree + 0.5, 10 - agree + 0.5, 200_000)
    again = generator.binomial(10, shares)
    p = np.array([sign_test(k, 10 - k, 10) for k in range(11)])[again]
    undecided, opposite = chances(entry("T", seeds(agree)), 10)
    assert undecided == pytest.approx(float((p > 0.05).mean()), abs=0.004)
    assert opposite == pytest.approx(float(((p <= 0.05) & (again < 5)).mean()), abs=0.001)
    failing = chances(entry("T", decide([-1.0] * agree + [1.0] * (10 - agree), above=0.0)), 10)
    assert failing == pytest.approx((undecided, opposite))
    assert chances(entry("T", seeds(agree)), 5) == pytest.approx((1.0, 0.0))  # too few to decide


@pytest.mark.parametrize("shape", [0.125, 0.5, 1.0, 4.0])
def test_as_many_verdicts_are_lost_as_was_predicted(shape: float) -> None:
    """Claims that are one-sided, spread evenly, or mostly near their line: the ledger itself tells which."""
    generator = np.random.default_rng(1)
    first, second = [], []
    for number, share in enumerate(generator.beta(shape, shape, 3000)):
        one, other = (
            decide(np.where(generator.random(10) < share, 1.0, -1.0).tolist(), above=0.0) for _ in range(2)
        )
        first.append(entry(f"T-{number}", one))
        second.append(entry(f"T-{number}", other, seeds=50))
    found = compare(first, second)
    lost, expected = found.count(Change.LOST), found.expected_undecided
    assert len(found.judged) > 100
    assert abs(lost - expected) < 4 * expected**0.5
    assert expected < found.most_undecided < expected + 3 * expected**0.5 + 2
    prior = spread(first)
    assert 0.5 * shape <= max(prior, key=prior.__getitem__) <= 2 * shape


def test_a_few_claims_that_all_agree_do_not_promise_that_they_always_will() -> None:
    found = compare([entry("T", seeds(10))], [entry("T", seeds(10), seeds=50)])
    assert found.expected_undecided > 0.02


def test_a_share_of_seeds_is_predicted_by_its_own_test() -> None:
    first = entry("T", decide_share([True] * 10, above=0.4))
    generator = np.random.default_rng(0)
    again = generator.binomial(10, generator.beta(10.5, 0.5, 200_000))
    decided = np.array([decide_share([True] * k + [False] * (10 - k), above=0.4).verdict for k in range(11)])
    undecided, opposite = chances(first, 10)
    assert undecided == pytest.approx(float((decided[again] == Verdict.UNDECIDED).mean()), abs=0.004)
    assert opposite == pytest.approx(float((decided[again] == Verdict.FAILS).mean()), abs=0.001)
