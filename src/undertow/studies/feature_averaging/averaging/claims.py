"""F-a … F-e: perfect accuracy, coefficients λ of the own and of the other class, neurons ∝ Σμ_j.

The theorem's words are asymptotic: coefficients of the own class are Ω(1) with ratios 1 ± o(1), those of the other
class o(1). On records each becomes a number at the largest d, and a trend over dimensions. The lines are fixed
numbers: half a logit for Ω(1), a factor of two for ratios that do not differ much, a tenth for negligible, a cosine of
0.95 for ∝.
"""

from __future__ import annotations

import math
from typing import Any

import polars

from undertow.studies.feature_averaging.cluster_grids import BY_DIMENSION
from undertow.studies.feature_averaging.cluster_tables import (
    SEEN,
    at_paper_size,
    in_every_part,
    most,
    networks,
)
from undertow.studies.kit.claim import CORRELATION, POSITIVE, SHARE, Finding, decide
from undertow.studies.kit.per_seed import by_value, exponents, verdict
from undertow.studies.kit.readings import largest
from undertow.studies.kit.statements import Claims, PublishedNumbers

__all__ = ["CLAIMS", "PUBLISHED"]

_SLIDES, _TALK = "Li, Pan, Lyu & Li 2025, slides", "Li 2024, talk"
_LAMBDA = "feature-coefficients"
_IN_DOUBLINGS = f"{SEEN}; log₂ was taken after a mean of ratios had left a clear failure undecided"
_MOVED = f"{SEEN}, and moved from 0 to −0.05 after a made-up constant had passed as falling"
_FALLING = -0.05  # an exponent nearer to 0 changes less than a tenth over the dimensions looked at
_CAP = 1000.0  # a ratio with a coefficient at or below zero is infinite; a mean over seeds needs a number

CLAIMS = Claims(f"{_SLIDES}: Feature Averaging theorem", parts=tuple(BY_DIMENSION), hindsight=SEEN)
# The slides print no measured numbers: these are what their statements give at the size of their experiments.
PUBLISHED = PublishedNumbers(_SLIDES)


@PUBLISHED.add(
    "cosine of a neuron with a feature of its class, 1/√5 at k = 10",
    "0.447",
    "Feature Averaging theorem, w ∝ Σμ_j",
    parts=["averaging"],
)
@PUBLISHED.add(
    "cosine of a neuron with its own feature, cluster labels",
    "1",
    "Multiple-Info theorem, λ_ij = o(1), and the diagonal of Fig 1",
    parts=["decoupling"],
)
def own_cosine(frame: polars.DataFrame) -> list[float]:
    """Per seed the mean over neurons and their own features."""
    return at_paper_size(networks(frame, "feature-cosines"))["own_mean"].to_list()


@CLAIMS.add(
    "F-a",
    "The network has perfect standard accuracy.",
    measure="cluster-radius",
    key="accuracy",
    what="accuracy on new points",
    over="min",
    above=0.99,
    within=SHARE,
)
@CLAIMS.add(
    "F-b",
    "Coefficients of the own class are Ω(1).",
    figure="coefficients",
    key="own_least",
    what="smallest own-class λ",
    over="min",
    above=0.5,
)
@CLAIMS.add(
    "F-d",
    "Coefficients of the other class are negligible.",
    figure="coefficients",
    key="cross_share",
    what="largest cross-class |λ| / mean own λ",
    over="max",
    below=0.1,
    within=POSITIVE,
)
@CLAIMS.add(
    "F-e",
    "Neurons are proportional to the sum of their class's features.",
    "intuition",
    figure="cosines",
    measure="feature-cosines",
    key="aligned",
    what="smallest cosine of a neuron with its Σμ_j",
    over="min",
    above=0.95,
    within=CORRELATION,
)
@CLAIMS.add(
    "F-e.change",
    "What training adds to a neuron is proportional to the sum of its class's features.",
    "intuition, without w(0)",
    figure="start",
    key="aligned",
    what="smallest cosine of a neuron's change with its Σμ_j",
    over="min",
    above=0.95,
    within=CORRELATION,
)
def at_the_largest_d(
    frame: polars.DataFrame, key: str, what: str, measure: str = _LAMBDA, **line: Any
) -> Finding:
    """Per seed the worst neuron's or network's reading at the largest d, against a line."""
    table = networks(frame, measure)
    note = f"effect: {what} at d = {most(table, 'd')}; by d: {_means(table, 'd', key)}"
    return verdict(largest(table, "d"), key, note=note, **line)


@CLAIMS.add(
    "F-c.limit",
    "Ratios of own-class coefficients are 1 ± o(1).",
    source=f"{_TALK}: GD learns average features",
    hindsight=_MOVED,
    key="excess",
    what="(largest λ_j/λ_l − 1)",
    shown="own_ratio",
)
@CLAIMS.add(
    "F-d.limit",
    "Coefficients of the other class are o(1).",
    hindsight=_MOVED,
    key="cross_largest",
    what="the largest cross-class |λ|",
    shown="cross_largest",
)
def falls_with_d(frame: polars.DataFrame, key: str, what: str, shown: str) -> Finding:
    """Per seed the exponent in d of a reading, or of the largest ratio less one, against −0.05."""
    table = networks(frame, _LAMBDA)
    if key == "excess":
        table = _capped(table).with_columns(excess=polars.col("own_ratio") - 1)
    note = f"effect: exponent of {what} in d; by d: {_means(table, 'd', shown)}"
    return decide(exponents(table, "d", key), below=_FALLING, note=note)


@CLAIMS.add(
    "F-c",
    "No own-class coefficient of a neuron is much larger than another: ratios are O(1).",
    figure="coefficients",
    hindsight=_IN_DOUBLINGS,
    axis="d",
    where="of one neuron at d = {} (at most 1000); by d: ",
)
@CLAIMS.add(
    "F-c.start",
    "Own-class coefficients are alike from a start as large as σ_w² = 1/d too.",
    source=f"{_SLIDES}: initialization, against the paper's experiments",
    parts=["start"],
    figure="start",
    hindsight=_IN_DOUBLINGS,
    axis="std",
    where="from the largest start; mean ratios: ",
    form="{mean:.3g} at σ_w = {place:g}",
)
def ratio_bounded(frame: polars.DataFrame, axis: str, where: str, **form: str) -> Finding:
    """Per seed log₂ of the largest ratio of own-class coefficients of one neuron at the largest d or start, against 1.

    Ratios differ by factors, and one huge one must not hide the others.
    """
    doublings = polars.col("own_ratio").map_elements(math.log2, return_dtype=polars.Float64)
    table = _capped(networks(frame, _LAMBDA)).with_columns(doublings=doublings)
    means = _means(table, axis, "own_ratio", **form)
    note = f"effect: log₂ of the largest λ_j/λ_l {where.format(table[axis].max())}{means}"
    return verdict(largest(table, axis), "doublings", over="max", below=1.0, note=note)


@CLAIMS.add(
    "F-e.noise",
    "The same under sub-Gaussian noise of other kinds.",
    source=f"{_TALK}: GD learns average features; extension",
    parts=["noise"],
    axis="noise",
)
@CLAIMS.add(
    "F-e.angle",
    "The same for centres that are only nearly orthogonal: cosines from −0.05 to 0.1.",
    source=f"{_TALK}: theoretical setup (can be relaxed slightly)",
    parts=["angle"],
    hindsight=f"{SEEN}, and a cosine of 0.3 left out after one run at smoke scale",
    axis="cosine",
    upto=0.1,
)
@CLAIMS.add(
    "F-e.balance",
    "The same where one class has up to four times as many clusters as the other.",
    source=f"{_SLIDES}: Data Distribution (balanced up to a constant c)",
    parts=["balance"],
    axis="balance",
)
def aligned_anyhow(frame: polars.DataFrame, axis: str, upto: float | None = None) -> Finding:
    """The same for every kind of noise, balance, or cosine between centres ``upto`` one, the worst for each seed."""
    table = networks(frame, _LAMBDA)
    means = _means(table, axis, "aligned", form="{mean:.3f} at {place}")
    note = f"effect: smallest over {axis} of the cosine of a neuron's change with its Σμ_j; means: {means}"
    tested = table if upto is None else table.filter(polars.col(axis) <= upto)
    return verdict(tested, "aligned", over="min", above=0.95, within=CORRELATION, note=note)


@CLAIMS.add(
    "F-b.lemma",
    "Weights are the start plus multiples of the features and of the training points' noise.",
    source=f"{_SLIDES}: Weight Decomposition lemma",
    check="every gradient step is a sum of training points, which are a feature and their noise each",
)
def exact_lemma(frame: polars.DataFrame) -> Finding:
    """Per seed the largest relative residual of the decomposition, against 10⁻⁶."""
    table = in_every_part(networks(frame, _LAMBDA))
    note = "effect: largest residual of least squares, relative to ‖w(T) − w(0)‖"
    return verdict(table, "residual", over="max", below=1e-6, within=POSITIVE, note=note)


def _means(table: polars.DataFrame, axis: str, key: str, form: str = "{mean:.3g} at {place}") -> str:
    return by_value(table, axis, value=key, form=form)


def _capped(table: polars.DataFrame) -> polars.DataFrame:
    return table.with_columns(polars.col("own_ratio").clip(upper_bound=_CAP))
