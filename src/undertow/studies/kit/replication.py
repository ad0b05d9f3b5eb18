"""Two ledgers side by side: which verdicts other seeds do not share, and how many of those were to be expected."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from undertow.studies.kit.claim import FEWEST_SEEDS, Verdict
from undertow.studies.kit.exact_tests import binomial_test, sign_test
from undertow.studies.kit.ledger import Entry
from undertow.studies.kit.multiplicity import LEVEL

__all__ = ["JEFFREYS", "Change", "Comparison", "Pair", "Prior", "chances", "compare", "spread"]

Prior = dict[float, float]
"""Weights of the shapes a of Beta(a, a): small for claims that are one-sided, large for such as lie near their line."""
JEFFREYS: Prior = {0.5: 1.0}
_SHAPES = tuple(2.0**power for power in range(-5, 4))
_OPPOSITE = {
    Verdict.HOLDS: Verdict.FAILS,
    Verdict.FAILS: Verdict.HOLDS,
    Verdict.KEPT: Verdict.VIOLATED,
    Verdict.VIOLATED: Verdict.KEPT,
}


class Change(StrEnum):
    """What became of a verdict on other seeds, the gravest first."""

    OPPOSITE = "turned into the opposite"
    LOST = "decided, now undecided"
    GAINED = "undecided, now decided"
    UNJUDGED = "decided, not judged there"
    SAME = "the same"


@dataclass(frozen=True)
class Pair:
    """A claim in two ledgers; the chances are what the first one's seeds predict of the second verdict."""

    first: Entry
    second: Entry
    change: Change
    undecided: float = 0.0
    opposite: float = 0.0

    def row(self) -> dict[str, Any]:
        """The pair as plain data, for JSON."""
        return {
            "change": str(self.change),
            "predicted_undecided": self.undecided,
            "predicted_opposite": self.opposite,
            "first": self.first.row(),
            "second": self.second.row(),
        }


@dataclass(frozen=True)
class Comparison:
    """All claims of two ledgers, paired; ``alone`` counts claims that only one of them has."""

    pairs: tuple[Pair, ...]
    alone: tuple[int, int]
    shared_seeds: tuple[int, ...]

    @property
    def judged(self) -> list[Pair]:
        """Verdicts of the first ledger that the second one judged as well; checks are no verdicts."""
        kinds = (Change.OPPOSITE, Change.LOST, Change.SAME)
        return [
            pair
            for pair in self.pairs
            if not pair.first.is_check and pair.first.verdict in _OPPOSITE and pair.change in kinds
        ]

    def count(self, change: Change) -> int:
        """How many verdicts changed so, checks left out."""
        return Counter(pair.change for pair in self.pairs if not pair.first.is_check)[change]

    @property
    def expected_undecided(self) -> float:
        """How many verdicts the first ledger's own seeds predict to be undecided in the second."""
        return math.fsum(pair.undecided for pair in self.judged)

    @property
    def most_undecided(self) -> int:
        """The number that is not exceeded with probability 95 %, were the claims independent of each other."""
        chance = [1.0]
        for pair in self.judged:  # the distribution of a sum of unequal coins
            p = pair.undecided
            chance = [a * (1 - p) + b * p for a, b in zip([*chance, 0.0], [0.0, *chance], strict=True)]
        below = itertools.accumulate(chance)
        return next(number for number, total in enumerate(below) if total >= 0.95)

    @property
    def expected_opposite(self) -> float:
        """How many verdicts they predict to turn into the opposite."""
        return math.fsum(pair.opposite for pair in self.judged)

    def row(self) -> dict[str, Any]:
        """The comparison as plain data, for JSON."""
        judged = len(self.judged)
        turned = self.count(Change.OPPOSITE)
        return {
            "judged": judged,
            "opposite": turned,
            "opposite_share": turned / judged if judged else None,
            "opposite_expected": self.expected_opposite,
            "undecided": self.count(Change.LOST),
            "undecided_expected": self.expected_undecided,
            "undecided_at_most": self.most_undecided,
            "newly_decided": self.count(Change.GAINED),
            "not_judged": self.count(Change.UNJUDGED),
            "only_in_first": self.alone[0],
            "only_in_second": self.alone[1],
            "shared_seeds": list(self.shared_seeds),
            "changes": [pair.row() for pair in self.pairs if pair.change is not Change.SAME],
        }


def compare(first: Iterable[Entry], second: Iterable[Entry]) -> Comparison:
    """Pair the claims of two ledgers by study, variant and scale, the gravest change first.

    Of a ledger with several sets of seeds, as one folder may hold, the first set counts in the first ledger, and all
    that are others in the second.
    """
    chosen: dict[tuple[str, ...], Entry] = {}
    for entry in sorted(first, key=lambda each: each.seed_set != "own"):
        chosen.setdefault(_key(entry), entry)
    prior = spread(chosen.values())
    others = [entry for entry in second if chosen.get(_key(entry)) != entry]
    pairs = [_pair(chosen[_key(entry)], entry, prior) for entry in others if _key(entry) in chosen]
    order = list(Change)
    pairs.sort(key=lambda pair: (order.index(pair.change), _key(pair.first)))
    found = {_key(pair.first) for pair in pairs}
    alone = len(chosen.keys() - found), len({_key(entry) for entry in others} - chosen.keys())
    shared = {seed for pair in pairs for seed in set(pair.first.seeds) & set(pair.second.seeds)}
    return Comparison(tuple(pairs), alone, tuple(sorted(shared)))


def spread(entries: Iterable[Entry]) -> Prior:
    """How one-sided the claims of a ledger are: a weight for each Beta(a, a) of the share of seeds above a line.

    The weights are the likelihoods of all tested claims' seeds, decided or not, so that the prediction for those
    which were decided is not made too bold by their having been chosen.
    """
    logs = dict.fromkeys(_SHAPES, 0.0)
    for entry in entries:
        found = entry.finding
        if found.p is not None and found.estimand == "median" and not entry.is_check:
            for a in _SHAPES:
                logs[a] += math.log(_beta_binomial(found.agree, found.agree + found.against, a, a))
    largest = max(logs.values())
    weights = {a: math.exp(log - largest) for a, log in logs.items()}
    total = math.fsum(weights.values())
    return {a: weight / total for a, weight in weights.items()}


def chances(first: Entry, n: int, prior: Prior = JEFFREYS) -> tuple[float, float]:
    """The chances that n other seeds leave a decided claim undecided, and that they decide the opposite.

    Of the first ledger's seeds k of m were on the side of its verdict. With Beta(a, a) on the share of such seeds,
    the number among n others is beta-binomial with k + a and m − k + a, averaged over the ``prior`` of a. Taking k/m
    itself for that share would say that ten of ten will always be ten of ten. A claim is decided where the test's p
    is at most the level that Benjamini & Hochberg left to the first ledger's family.
    """
    found, family = first.finding, first.family
    holds = first.verdict is Verdict.HOLDS
    seeds = (found.agree, found.against) if holds else (found.against, found.agree)
    on_side, beyond = (number + found.ties / 2 for number in seeds)
    level = LEVEL * family.decided / family.claims if family.claims else LEVEL
    weights = prior if found.estimand == "median" else JEFFREYS
    undecided = opposite = 0.0
    for k in range(n + 1):
        chance = math.fsum(w * _beta_binomial(k, n, on_side + a, beyond + a) for a, w in weights.items())
        decided = n >= FEWEST_SEEDS and _p(first, k, n, holds=holds) <= level
        undecided += 0.0 if decided else chance
        opposite += chance if decided and not _beyond(first, k, n, holds=holds) else 0.0
    return undecided, opposite


def _p(first: Entry, k: int, n: int, *, holds: bool) -> float:
    found = first.finding
    if found.estimand == "median" or found.line is None:
        return sign_test(k, n - k, n)
    yes = k if (found.side == "above") == holds else n - k
    return binomial_test(yes, n, found.line)


def _beyond(first: Entry, k: int, n: int, *, holds: bool) -> bool:
    """Whether k of n on the verdict's side is on that side of the line."""
    found = first.finding
    if found.estimand == "median" or found.line is None:
        return 2 * k > n
    yes = k if (found.side == "above") == holds else n - k
    return (yes / n > found.line) == ((found.side == "above") == holds)


def _beta_binomial(k: int, n: int, a: float, b: float) -> float:
    def log_beta(x: float, y: float) -> float:
        return math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)

    return math.comb(n, k) * math.exp(log_beta(k + a, n - k + b) - log_beta(a, b))


def _pair(first: Entry, second: Entry, prior: Prior) -> Pair:
    was, now = first.verdict, second.verdict
    if was is now:
        change = Change.SAME
    elif now is _OPPOSITE.get(was):
        change = Change.OPPOSITE
    elif was is Verdict.UNDECIDED:
        change = Change.GAINED
    else:
        change = Change.LOST if second.finding.p is not None else Change.UNJUDGED
    if first.is_check or was not in _OPPOSITE or change is Change.UNJUDGED:
        return Pair(first, second, change)
    return Pair(first, second, change, *chances(first, second.finding.n, prior))


def _key(entry: Entry) -> tuple[str, ...]:
    return entry.study, entry.variant, entry.scale, entry.claim.id
