"""Bootstrap intervals: of a mean over seeds, of a rank correlation over networks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["mean_interval", "rank_interval"]

_RESAMPLES = 9_999


def mean_interval(
    values: Sequence[float | None], *, level: float = 0.95, seed: int = 0
) -> tuple[float, float] | None:
    """Studentised bootstrap interval of the mean (Efron & Tibshirani 1993, §12.5).

    With t* = (x̄* − x̄)/se* over resamples, the interval is [x̄ − t*_(97.5%) se, x̄ − t*_(2.5%) se]. A study has
    few seeds, and the plain percentile interval covers too seldom then: of 95 % promised, 84 % for five
    normal values against 96 % here (76 % and 93 % for exponential ones; 1000 repetitions).

    Values with many ties (ranks, counts) give resamples without any spread; where those are more than the
    tail, Student's t takes the place of the quantiles. None for fewer than two values, or not finite ones.

    >>> mean_interval([2.0, 2.0, 2.0, 2.0, 2.0])
    (2.0, 2.0)
    >>> low, high = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> low < 1.1, high > 4.9
    (True, True)
    """
    data = np.asarray(values, dtype=np.float64)
    if len(data) < 2 or not np.isfinite(data).all():
        return None
    mean, error = data.mean(), data.std(ddof=1) / math.sqrt(len(data))
    if error == 0:
        return float(mean), float(mean)
    picks = np.random.default_rng(seed).integers(0, len(data), (_RESAMPLES, len(data)))
    resampled = data[picks]
    shifts = resampled.mean(axis=1) - mean
    errors = resampled.std(axis=1, ddof=1) / math.sqrt(len(data))
    # A resample of one value repeated has no spread: its t is beyond every other on its side.
    centred = np.abs(shifts) <= 1e-12 * np.abs(data).max()
    beyond = np.where(centred, 0.0, np.copysign(np.inf, shifts))
    flat = errors <= 1e-12 * np.abs(data).max()
    t = np.where(flat, beyond, shifts / np.where(flat, 1.0, errors))
    tail = (1 - level) / 2
    low_t, high_t = np.quantile(t, (tail, 1 - tail), method="inverted_cdf")
    if not (math.isfinite(low_t) and math.isfinite(high_t)):
        from scipy.special import stdtrit  # not needed for most claims, and slow to import

        high_t = float(stdtrit(len(data) - 1, 1 - tail))
        low_t = -high_t
    return float(mean - high_t * error), float(mean - low_t * error)


def rank_interval(
    groups: Sequence[tuple[Sequence[float], Sequence[float]]], *, level: float = 0.95, seed: int = 0
) -> tuple[float, float] | None:
    """Percentile bootstrap interval of Spearman's correlation of pairs, averaged over groups that are drawn apart.

    The pairs of each group keep the ranks they have in it, and are drawn with replacement. This tells how much the
    correlation leans on some of the pairs; it says nothing of another draw of the groups. None where a group
    has fewer than three pairs or a constant side.

    >>> low, high = rank_interval([([1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 1, 2])])
    >>> round(low, 2), high <= -0.6
    (-1.0, True)
    """
    source = np.random.default_rng(seed)
    total = np.zeros(_RESAMPLES)
    for one, other in groups:
        ranks = np.stack([_ranks(one), _ranks(other)])
        if ranks.shape[1] < 3 or (np.ptp(ranks, axis=1) == 0).any():
            return None
        drawn = ranks[:, source.integers(0, ranks.shape[1], (_RESAMPLES, ranks.shape[1]))]
        drawn = drawn - drawn.mean(axis=2, keepdims=True)
        products = (drawn[0] * drawn[1]).sum(axis=1)
        sizes = np.sqrt((drawn**2).sum(axis=2).prod(axis=0))
        total += np.where(sizes > 0, products / np.where(sizes > 0, sizes, 1.0), 0.0)
    tail = (1 - level) / 2
    low, high = np.quantile(total / len(groups), (tail, 1 - tail)) if groups else (math.nan, math.nan)
    return None if math.isnan(low) else (float(low), float(high))


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 1, the mean of them where values are equal."""
    data = np.asarray(values, dtype=np.float64)
    _, place, counts = np.unique(data, return_inverse=True, return_counts=True)
    ends: np.ndarray = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[place]
