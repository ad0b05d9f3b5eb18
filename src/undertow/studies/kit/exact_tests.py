"""Exact tests and intervals for a handful of seeds: of their median by signs, of a share by the binomial.

Nothing is assumed of how the values are distributed. Both tests are binomial, so what they promise is computed from
the binomial itself, and can be checked by adding up probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

__all__ = ["at_least", "binomial_test", "median_interval", "share_interval", "sign_test"]


def at_least(hits: int, n: int, share: float = 0.5) -> float:
    """P(X ≥ hits) for X ~ Binomial(n, share).

    >>> at_least(9, 10) * 1024
    11.0
    """
    if hits <= 0:
        return 1.0
    if share == 0.5:  # whole numbers: no rounding before the last step
        return float(sum(math.comb(n, k) for k in range(hits, n + 1)) / 2**n)
    terms = (math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(hits, n + 1))
    return min(math.fsum(terms), 1.0)


def sign_test(above: int, below: int, n: int) -> float:
    """Two-sided p = 2 P(Binomial(n, ½) ≥ max(above, below)): is the median of n values on the line?

    Values on the line count for neither side and stay in n. Leaving them out would test something else, whether a
    value is as likely above the line as below it: of values that are 1 with probability 0.4 and else 0, the median is
    0, and yet 87 % of samples of 20 would have a median "above 0". With ties kept the median's interval and the test
    always agree.

    >>> sign_test(9, 1, 10) < 0.05 < sign_test(8, 2, 10), sign_test(8, 0, 8) < 0.05 < sign_test(7, 1, 8)
    (True, True)
    >>> sign_test(6, 0, 6), sign_test(5, 0, 5)
    (0.03125, 0.0625)
    >>> sign_test(8, 0, 10)    # two on the line
    0.109375
    """
    return min(2 * at_least(max(above, below), n), 1.0)


def median_interval(values: Sequence[float], *, level: float = 0.95) -> tuple[float, float, float] | None:
    """Interval of the median between order statistics, [x₍ₖ₎, x₍ₙ₊₁₋ₖ₎], and the coverage 1 − 2 P(Binomial(n, ½) < k).

    k is the largest with a coverage of ``level`` or more. Where all values together cover less, as five do, the
    interval is from the smallest to the largest, and its coverage tells. With ties it covers at least as often. None
    for fewer than two values.

    >>> median_interval([3, 1, 4, 1.5, 9, 2.6, 5, 3.5, 8, 7])
    (1.5, 8, 0.978515625)
    >>> median_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    (1.0, 5.0, 0.9375)
    """
    ordered, n = sorted(values), len(values)
    if n < 2:
        return None

    def coverage(k: int) -> float:
        return 1 - 2 * at_least(n + 1 - k, n)

    k = max((k for k in range(1, n // 2 + 1) if coverage(k) >= level), default=1)
    return ordered[k - 1], ordered[n - k], coverage(k)


def binomial_test(hits: int, n: int, line: float) -> float:
    """Two-sided p = 2 min(P(X ≥ hits), P(X ≤ hits)) for X ~ Binomial(n, line): is the share of hits the line?

    >>> round(binomial_test(10, 10, 0.7), 4)    # 2 · 0.7¹⁰
    0.0565
    """
    return min(2 * at_least(hits, n, line), 2 * at_least(n - hits, n, 1 - line), 1.0)


def share_interval(hits: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """The interval of Clopper & Pearson (1934) of a share: all lines that ``binomial_test`` does not reject.

    It covers at least as often as ``level`` says, whatever the share.

    >>> low, high = share_interval(9, 10)
    >>> round(low, 4), round(high, 4)
    (0.555, 0.9975)
    >>> share_interval(10, 10)[1]
    1.0
    """
    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else _crossing(lambda share: at_least(hits, n, share) - tail)
    high = 1.0 if hits == n else _crossing(lambda share: tail - at_least(n - hits, n, 1 - share))
    return low, high


def _crossing(rising: Callable[[float], float]) -> float:
    """Where a function that rises over [0, 1] crosses 0."""
    low, high = 0.0, 1.0
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return high
