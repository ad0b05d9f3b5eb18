"""The limits of the stable rank on orthogonal points of equal norm, as formulas; see ``undertow.theory.rank_law``."""

from __future__ import annotations

import math

__all__ = ["leaky_limit", "relu_limit"]


def leaky_limit(positive: int, negative: int, slope: float) -> float:
    """Stable rank of W at the KKT point on orthogonal points of equal norm, leaky ReLU with this slope > 0.

    W's rows are u = Σ₊x − gΣ₋x and v = Σ₋x − gΣ₊x: ‖W‖_F² ∝ (1+g²)N and
    ‖W‖₂² ∝ ½[(1+g²)N + √((1−g²)²(n₊−n₋)² + 4g²N²)].

    >>> leaky_limit(5, 5, 1.0), round(leaky_limit(5, 5, 0.01), 4), round(2 * 1.0001 / 1.01**2, 4)
    (1.0, 1.9608, 1.9608)
    """
    total, difference = positive + negative, positive - negative
    squares = (1 + slope**2) * total
    return 2 * squares / (squares + math.hypot((1 - slope**2) * difference, 2 * slope * total))


def relu_limit(positive: int, negative: int, share: float = 0.5) -> float:
    """Stable rank of W in the limit of many neurons, each active on a point of its class with odds ``share``, ReLU.

    E[mask maskᵀ] = p² + p(1−p)·identity: ‖W‖_F² ∝ p(n₊+n₋) and ‖W‖₂² ∝ p² max(n₊,n₋) + p(1−p).

    >>> relu_limit(5, 5), 4 * 5 / (5 + 1), relu_limit(5, 5, share=1.0)
    (3.3333333333333335, 3.3333333333333335, 2.0)
    """
    return (positive + negative) / (share * max(positive, negative) + 1 - share)
