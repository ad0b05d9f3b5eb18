"""Does gradient descent average features? The weights and their coefficients λ (claims F-a … F-e).

The theorem's words are asymptotic: coefficients of the own class are Ω(1) with ratios 1 ± o(1), those of the other
class o(1). On records each becomes a number at the largest d, and a trend over dimensions. The lines are fixed
numbers: half a logit for Ω(1), a factor of two for ratios that do not differ much, a tenth for negligible, a cosine of
0.95 for ∝.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from undertow.studies.feature_averaging.sizes import (
    SEEN,
    by_seed,
    exponents,
    in_every_part,
    largest,
    most,
    networks,
)
from undertow.studies.feature_averaging.synthetic import BY_DIMENSION
from undertow.studies.kit.claim import CORRELATION, POSITIVE, SHARE, Claim, Finding, decide
from undertow.studies.kit.study import Figure

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES"]

_THEOREM = "Li, Pan, Lyu & Li 2025, slides: Feature Averaging theorem"
_TALK = "Li 2024, talk: GD learns average features"
_SIZES = tuple(BY_DIMENSION)
_FALLING = -0.05  # an exponent nearer to 0 changes less than a tenth over the dimensions looked at
_IN_DOUBLINGS = f"{SEEN}; log₂ was taken after a mean of ratios had left a clear failure undecided"
_MOVED = f"{SEEN}, and moved from 0 to −0.05 after a made-up constant had passed as falling"
_CAP = 1000.0  # a ratio with a coefficient at or below zero is infinite; a mean over seeds needs a number


def perfect_accuracy(frame: polars.DataFrame) -> Finding:
    """Per seed the test accuracy at the largest d, against 0.99."""
    table = networks(frame, "cluster-radius")
    note = f"effect: accuracy on new points at d = {_largest(table)}; {_trend(table, 'accuracy')}"
    return decide(by_seed(largest(table, "d"), "accuracy", "min"), above=0.99, within=SHARE, note=note)


def own_coefficients(frame: polars.DataFrame) -> Finding:
    """Per seed the smallest own-class λ of any neuron at the largest d, against 1/2."""
    table = networks(frame, "feature-coefficients")
    note = f"effect: smallest own-class λ at d = {_largest(table)}; {_trend(table, 'own_least')}"
    return decide(by_seed(largest(table, "d"), "own_least", "min"), above=0.5, note=note)


def bounded_ratio(frame: polars.DataFrame) -> Finding:
    """Per seed log₂ of the largest ratio of own-class coefficients of one neuron at the largest d, against 1."""
    table = _capped(networks(frame, "feature-coefficients"))
    where = f"one neuron at d = {_largest(table)} (at most {_CAP:g})"
    note = f"effect: log₂ of the largest λ_j/λ_l of {where}; {_trend(table, 'own_ratio')}"
    return decide(_doublings(largest(table, "d")), below=1.0, note=note)


def ratio_to_one(frame: polars.DataFrame) -> Finding:
    """Per seed the exponent in d of the largest ratio less one, against −0.05."""
    import polars

    table = _capped(networks(frame, "feature-coefficients")).with_columns(excess=polars.col("own_ratio") - 1)
    note = f"effect: exponent of (largest λ_j/λ_l − 1) in d; {_trend(table, 'own_ratio')}"
    return decide(exponents(table, "d", "excess"), below=_FALLING, note=note)


def cross_share(frame: polars.DataFrame) -> Finding:
    """Per seed the largest cross-class |λ| relative to the own ones at the largest d, against 1/10."""
    table = networks(frame, "feature-coefficients")
    note = f"effect: largest cross-class |λ| / mean own λ at d = {_largest(table)}; {_trend(table, 'cross_share')}"
    return decide(by_seed(largest(table, "d"), "cross_share"), below=0.1, within=POSITIVE, note=note)


def cross_to_zero(frame: polars.DataFrame) -> Finding:
    """Per seed the exponent in d of the largest cross-class |λ|, against −0.05."""
    table = networks(frame, "feature-coefficients")
    note = f"effect: exponent of the largest cross-class |λ| in d; {_trend(table, 'cross_largest')}"
    return decide(exponents(table, "d", "cross_largest"), below=_FALLING, note=note)


def aligned(frame: polars.DataFrame, *, measure: str, what: str) -> Finding:
    """Per seed the smallest cosine of a neuron with the sum of its own features at the largest d, against 0.95."""
    table = networks(frame, measure)
    note = f"effect: smallest cosine of {what} with its Σμ_j at d = {_largest(table)}; {_trend(table, 'aligned')}"
    return decide(by_seed(largest(table, "d"), "aligned", "min"), above=0.95, within=CORRELATION, note=note)


def aligned_anyhow(frame: polars.DataFrame, axis: str, *, upto: float | None = None) -> Finding:
    """The same for every kind of noise, balance, or cosine between centres ``upto`` one, the worst for each seed."""
    import polars

    table = networks(frame, "feature-coefficients")
    means = table.group_by(axis).agg(polars.col("aligned").mean()).sort(axis)
    note = (
        f"effect: smallest over {axis} of the cosine of a neuron's change with its Σμ_j; means: "
        + ", ".join(f"{value:.3f} at {name}" for name, value in means.iter_rows())
    )
    tested = table if upto is None else table.filter(polars.col(axis) <= upto)
    return decide(by_seed(tested, "aligned", "min"), above=0.95, within=CORRELATION, note=note)


def exact_lemma(frame: polars.DataFrame) -> Finding:
    """Per seed the largest relative residual of the decomposition, against 10⁻⁶."""
    table = in_every_part(networks(frame, "feature-coefficients"))
    note = "effect: largest residual of least squares, relative to ‖w(T) − w(0)‖"
    return decide(by_seed(table, "residual"), below=1e-6, within=POSITIVE, note=note)


def any_start(frame: polars.DataFrame) -> Finding:
    """Per seed log₂ of the largest ratio of own-class coefficients from the largest start, against 1."""
    import polars

    table = _capped(networks(frame, "feature-coefficients"))
    means = table.group_by("std").agg(polars.col("own_ratio").mean()).sort("std")
    note = "effect: log₂ of the largest λ_j/λ_l from the largest start; mean ratios: " + ", ".join(
        f"{ratio:.3g} at σ_w = {std:g}" for std, ratio in means.iter_rows()
    )
    return decide(_doublings(largest(table, "std")), below=1.0, note=note)


def _draw(name: str) -> Callable[[polars.DataFrame], altair.TopLevelMixin]:
    """Pictures live in modules that need altair, which are imported only to draw."""

    def draw(frame: polars.DataFrame) -> altair.TopLevelMixin:
        from undertow.studies.feature_averaging import pictures, weight_pictures

        chosen: Callable[[polars.DataFrame], altair.TopLevelMixin]
        chosen = getattr(weight_pictures if hasattr(weight_pictures, name) else pictures, name)
        return chosen(frame)

    return draw


def _largest(table: polars.DataFrame) -> str:
    return str(most(table, "d"))


def _trend(table: polars.DataFrame, key: str) -> str:
    import polars

    means = table.group_by("d").agg(polars.col(key).mean()).sort("d")
    return "by d: " + ", ".join(f"{value:.3g} at {d}" for d, value in means.iter_rows())


def _doublings(table: polars.DataFrame) -> list[float]:
    """log₂ of the largest ratio: ratios differ by factors, and one huge one must not hide the others."""
    return [math.log2(ratio) for ratio in by_seed(table, "own_ratio")]


def _capped(table: polars.DataFrame) -> polars.DataFrame:
    import polars

    return table.with_columns(polars.col("own_ratio").clip(upper_bound=_CAP))


FIGURES = (
    Figure(
        "cosines", "Averaged and decoupled features", _draw("cosine_maps"), parts=("averaging", "decoupling")
    ),
    Figure(
        "coefficients",
        "Coefficients λ over training",
        _draw("coefficients_over_training"),
        parts=("averaging",),
    ),
    Figure("start", "Averaging and the scale of the start", _draw("spread_by_start"), parts=("start",)),
)
CLAIMS = (
    Claim(
        "F-a",
        "The network has perfect standard accuracy.",
        _THEOREM,
        perfect_accuracy,
        parts=_SIZES,
        hindsight=SEEN,
    ),
    Claim(
        "F-b.lemma",
        "Weights are the start plus multiples of the features and of the training points' noise.",
        "Li, Pan, Lyu & Li 2025, slides: Weight Decomposition lemma",
        exact_lemma,
        parts=_SIZES,
        check="every gradient step is a sum of training points, which are a feature and their noise each",
    ),
    Claim(
        "F-b",
        "Coefficients of the own class are Ω(1).",
        _THEOREM,
        own_coefficients,
        parts=_SIZES,
        figure="coefficients",
        hindsight=SEEN,
    ),
    Claim(
        "F-c",
        "No own-class coefficient of a neuron is much larger than another: ratios are O(1).",
        _THEOREM,
        bounded_ratio,
        parts=_SIZES,
        figure="coefficients",
        hindsight=_IN_DOUBLINGS,
    ),
    Claim(
        "F-c.limit",
        "Ratios of own-class coefficients are 1 ± o(1).",
        _TALK,
        ratio_to_one,
        parts=_SIZES,
        hindsight=_MOVED,
    ),
    Claim(
        "F-c.start",
        "Own-class coefficients are alike from a start as large as σ_w² = 1/d too.",
        "Li, Pan, Lyu & Li 2025, slides: initialization, against the paper's experiments",
        any_start,
        parts=("start",),
        figure="start",
        hindsight=_IN_DOUBLINGS,
    ),
    Claim(
        "F-d",
        "Coefficients of the other class are negligible.",
        _THEOREM,
        cross_share,
        parts=_SIZES,
        figure="coefficients",
        hindsight=SEEN,
    ),
    Claim(
        "F-d.limit",
        "Coefficients of the other class are o(1).",
        _THEOREM,
        cross_to_zero,
        parts=_SIZES,
        hindsight=_MOVED,
    ),
    Claim(
        "F-e",
        "Neurons are proportional to the sum of their class's features.",
        f"{_THEOREM}, intuition",
        lambda frame: aligned(frame, measure="feature-cosines", what="a neuron"),
        parts=_SIZES,
        figure="cosines",
        hindsight=SEEN,
    ),
    Claim(
        "F-e.change",
        "What training adds to a neuron is proportional to the sum of its class's features.",
        f"{_THEOREM}, intuition, without w(0)",
        lambda frame: aligned(frame, measure="feature-coefficients", what="a neuron's change"),
        parts=_SIZES,
        figure="start",
        hindsight=SEEN,
    ),
    Claim(
        "F-e.noise",
        "The same under sub-Gaussian noise of other kinds.",
        f"{_TALK}; extension",
        lambda frame: aligned_anyhow(frame, "noise"),
        parts=("noise",),
        hindsight=SEEN,
    ),
    Claim(
        "F-e.angle",
        "The same for centres that are only nearly orthogonal: cosines from −0.05 to 0.1.",
        "Li 2024, talk: theoretical setup (can be relaxed slightly)",
        lambda frame: aligned_anyhow(frame, "cosine", upto=0.1),
        parts=("angle",),
        hindsight=f"{SEEN}, and a cosine of 0.3 left out after one run at smoke scale",
    ),
    Claim(
        "F-e.balance",
        "The same where one class has up to four times as many clusters as the other.",
        "Li, Pan, Lyu & Li 2025, slides: Data Distribution (balanced up to a constant c)",
        lambda frame: aligned_anyhow(frame, "balance"),
        parts=("balance",),
        hindsight=SEEN,
    ),
)
