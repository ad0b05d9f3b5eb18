"""Many claims at once: how many verdicts may be false, and what a claim's p is among the others."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["LEVEL", "adjusted", "expected_false"]

LEVEL = 0.05
"""Of the verdicts on a study's claims, the share that may be false; alone, the chance of a false one."""


def adjusted(p: Sequence[float]) -> list[float]:
    """The p of each claim among all: the smallest level at which Benjamini & Hochberg (1995) decide it.

    min over j ≥ i of p₍ⱼ₎ m/j. Deciding where it is at most 5 %, and in the direction in which the effect lies, keeps
    the expected share of false verdicts, wrong directions included, at 5 % or below (Benjamini & Yekutieli 2005, who
    prove it for independent claims). Claims of one study share networks: ``benchmarks/verdicts.py`` simulates that.

    >>> adjusted([0.01, 0.04, 0.03, 0.5])
    [0.04, 0.05333333333333334, 0.05333333333333334, 0.5]
    """
    order = sorted(range(len(p)), key=p.__getitem__, reverse=True)
    found, least = [1.0] * len(p), 1.0
    for index, rank in zip(order, range(len(p), 0, -1), strict=True):
        least = min(least, p[index] * len(p) / rank)
        found[index] = least
    return found


def expected_false(decided: int) -> float:
    """How many of so many verdicts are expected to be false, at most.

    >>> expected_false(40)
    2.0
    """
    return LEVEL * decided
