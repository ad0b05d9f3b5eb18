"""R-n and R-o: what the limit of the stable rank is, and whether it makes a network fragile."""

from __future__ import annotations

from typing import Any

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import CORRELATION, POSITIVE, Finding
from undertow.studies.kit.per_seed import by_value, mean, rank_correlation, verdict
from undertow.studies.kit.readings import after_training, compared, measured, side_by_side
from undertow.studies.kit.statements import Claims
from undertow.studies.stable_rank.law.limits import leaky_limit, relu_limit
from undertow.studies.stable_rank.rank_tables import by_start

__all__ = ["CLAIMS", "arms", "laws", "predictions"]

CLAIMS = Claims("ours, after Frei et al. 2023 and Kou, Chen & Gu 2023", parts=("law",), figure="law")
_ARM = ("width", "slope", "start", "seed")
_BOTH_WIDTHS = "the narrower of the two widths was added after the wider had left it undecided"
_SEEN = "three of the ten seeds were seen while points and width were chosen"


def laws(frame: polars.DataFrame) -> polars.DataFrame:
    """Each network's final stable rank beside the prediction of its start's pattern and the formula's."""
    axes = ["n", "positive", "width", "slope", "seed"]
    table = predictions(frame, axes)
    formula = [
        leaky_limit(p, n - p, slope) if slope else relu_limit(p, n - p)
        for n, p, slope in table.select("n", "positive", "slope").iter_rows()
    ]
    return table.with_columns(formula=polars.Series(formula))


def predictions(frame: polars.DataFrame, axes: list[str]) -> polars.DataFrame:
    """The final stable rank, ``end``, and what the pattern of the start predicted, ``predicted``, by network.

    A start with a point that moves no neuron has no prediction, and is left out.
    """
    end = after_training(frame, "stable-rank", "hidden.weight").select(*axes, end="value")
    start = measured(frame, "neuron-alignment", "predicted", step=0).select(*axes, predicted="value")
    return end.join(start, on=axes).with_columns(off=(polars.col("end") / polars.col("predicted") - 1).abs())


@CLAIMS.add(
    "R-n.pattern",
    "On orthogonal points the limit of a ReLU network's stable rank is predicted by its start's activation pattern "
    "alone, within 5 %.",
    leaky=False,
)
@CLAIMS.add(
    "R-n.leaky",
    "With leaky ReLU the pattern does not matter: the limit is that of every neuron active on its class, within 5 %.",
    leaky=True,
)
def by_pattern(frame: polars.DataFrame, leaky: bool) -> Finding:
    """Per seed the largest |end/predicted − 1| over numbers of points, balances, widths and slopes."""
    slope = polars.col("slope")
    table = laws(frame).filter(slope > 0 if leaky else slope == 0)
    note = (
        "effect: largest |stable rank/prediction − 1|",
        f"mean by width: {by_value(table, 'width', value='off', form='{place:g}: {mean:.3f}')}",
    )
    return verdict(table, "off", over="max", below=0.05, within=POSITIVE, note=note)


@CLAIMS.add(
    "R-n.average",
    "From small random starts the ReLU limit is about 2(n₊+n₋)/(max(n₊,n₋)+1), 4n₊/(n₊+1) for balanced classes: "
    "within 10 % at the largest width.",
)
def on_average(frame: polars.DataFrame) -> Finding:
    """Per seed the mean |end/formula − 1| over numbers of points and balances."""
    table = laws(frame).filter(polars.col("slope") == 0, polars.col("width") == polars.col("width").max())
    off = table.with_columns(value=(polars.col("end") / polars.col("formula") - 1).abs())
    note = f"effect: mean |stable rank/formula − 1| at width {off['width'][0]}"
    return verdict(off, below=0.1, within=POSITIVE, note=note)


@CLAIMS.add(
    "R-n.near-orthogonal",
    "The prediction gets worse as points become correlated.",
    parts=("cosines",),
    figure="law-by-cosine",
)
def worse_with_cosine(frame: polars.DataFrame) -> Finding:
    """Per seed the Spearman correlation, over cosines, of the cosine with |end/predicted − 1|."""
    table = predictions(by_start(frame), ["cosine", "d", "seed", "init"])
    means = table.group_by("cosine", "seed").agg(polars.col("off").mean())
    found = rank_correlation(means, "cosine", "off", by=["seed"])
    note = (
        "effect: Spearman of cosine and |stable rank/prediction − 1|",
        f"by cosine: {by_value(means, 'cosine', value='off', form='{place:g}: {mean:.2f}')}",
    )
    return verdict(found, above=0.0, within=CORRELATION, note=note)


_RESTS_SEEN = "where these networks come to rest was known when their starts' patterns were asked"
_OF_MIXTURE: dict[str, Any] = {
    "parts": ("rest",),
    "figure": "law-of-mixture",
    "hindsight": _RESTS_SEEN,
}


@CLAIMS.add(
    "R-n.mixture",
    "On the report's mixture the stable rank at rest is predicted by the start's activation pattern alone, within 5 % "
    "(fixed head, ReLU).",
    **_OF_MIXTURE,
    activation="relu",
)
@CLAIMS.add(
    "R-n.mixture-leaky",
    "On the report's mixture it is that of every neuron active on its class, within 5 % (fixed head, leaky ReLU).",
    **_OF_MIXTURE,
    activation="leaky-relu",
)
def on_the_mixture(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the largest |end/predicted − 1| of both starts; the points are nearly orthogonal, and of all norms."""
    table = predictions(by_start(frame), ["activation", "seed", "init"])
    own = table.filter(polars.col("activation") == activation)
    signed = mean((own["end"] / own["predicted"] - 1).drop_nulls())
    note = ("effect: largest |stable rank/prediction − 1|", f"on average it is {signed:+.1%} off")
    return verdict(own, "off", over="max", below=0.05, within=POSITIVE, note=note)


def arms(frame: polars.DataFrame, *, every_width: bool = False) -> polars.DataFrame:
    """Of every arm and seed at the end: rank, exact radii (``mean``, ``least``), γ (``margin``) and ``log10_loss``.

    Of the largest width, or of all. A drawn start with a point that moves no neuron ends with that point misclassified:
    there is nothing to compare, and it is left out.
    """
    rank = after_training(frame, "stable-rank", "hidden.weight").select(*_ARM, rank="value")
    if not every_width:
        rank = rank.filter(polars.col("width") == polars.col("width").max())
    table = rank.join(side_by_side(frame, "exact-radius", by=_ARM), on=_ARM).sort(_ARM)
    # Where radii agree in the limit they differ by what is left of the start: three digits are compared.
    table = table.with_columns(polars.col("rank", "mean", "margin").round(3))
    classified = table.filter(polars.col("margin") > 0)
    if classified.is_empty():
        raise InputError("every network misclassifies a training point: train longer")
    return classified


@CLAIMS.add(
    "R-o.lower",
    "A start with every neuron active on its class ends at a lower stable rank (ReLU).",
    parts=("intervention",),
    figure="rank-and-radius",
    hindsight=_SEEN,
    value="rank",
)
@CLAIMS.add(
    "R-o.fragile",
    "And it ends with smaller exact radii, at equal loss (ReLU).",
    parts=("intervention",),
    figure="rank-and-radius",
    hindsight=_SEEN,
    value="mean",
)
def active_start(frame: polars.DataFrame, value: str) -> Finding:
    """Per seed the ratio of both starts' values at slope 0, against 1."""
    relu = arms(frame).filter(polars.col("slope") == 0)
    pairs = compared(relu, "start", "active", "drawn", value=value, on=["seed"])
    margins = mean(compared(relu, "start", "active", "drawn", value="margin", on=["seed"])["ratio"])
    what = {"rank": "stable rank", "mean": "mean exact radius"}[value]
    note = (
        f"effect: {what} from an active start over that from a drawn one",
        f"γ = q_min/‖W‖ has the ratio {margins:.3g}",
    )
    return verdict(pairs, "ratio", below=1.0, within=POSITIVE, note=note)


@CLAIMS.add(
    "R-o.slope",
    "A slope of 0.3 in place of 0 lowers the rank of networks whose neurons are active on their class, and leaves "
    "their exact radii as they are, within 1 %.",
    parts=("intervention",),
    figure="rank-and-radius",
    hindsight=_SEEN,
)
def by_slope(frame: polars.DataFrame) -> Finding:
    """Per seed |radius at the largest slope/radius at slope 0 − 1|, both from an active start."""
    active = arms(frame).filter(polars.col("start") == "active")
    steepest = active["slope"].max()
    pairs = compared(active, "slope", steepest, 0.0, value="mean", on=["seed"])
    ranks = mean(compared(active, "slope", steepest, 0.0, value="rank", on=["seed"])["ratio"])
    apart = pairs.with_columns(value=(polars.col("ratio") - 1).abs())
    note = ("effect: relative change of the mean exact radius", f"the rank has the ratio {ranks:.3g}")
    return verdict(apart, below=0.01, within=POSITIVE, note=note)


@CLAIMS.add(
    "R-o.rank",
    "Over slopes and starts, networks of lower rank have smaller exact radii, at equal loss.",
    parts=("intervention",),
    figure="rank-and-radius",
    hindsight=_SEEN,
    given_margin=False,
)
@CLAIMS.add(
    "R-o.margin",
    "They do so at equal γ as well: rank has its share beyond the margin's.",
    parts=("intervention",),
    figure="rank-and-radius",
    hindsight=f"{_SEEN}; {_BOTH_WIDTHS}",
    given_margin=True,
)
def rank_and_radius(frame: polars.DataFrame, given_margin: bool) -> Finding:
    """Per seed the Spearman correlation of rank and radius over the arms, or the partial one given γ; against 0.

    The partial one is over both widths. A seed is compared over all of its arms, or not at all.
    """
    table, arms_there = arms(frame, every_width=given_margin), polars.len().over("seed")
    table = table.filter(arms_there == arms_there.max())
    found = rank_correlation(table, "rank", "mean", by=["seed"])
    if given_margin:
        with_rank, with_radius = (
            rank_correlation(table, "margin", other, by=["seed"]).rename({"value": f"margin_{other}"})
            for other in ("rank", "mean")
        )
        both = found.join(with_rank, on="seed").join(with_radius, on="seed")
        one, other = polars.col("margin_rank"), polars.col("margin_mean")
        left = ((1 - one**2) * (1 - other**2)).sqrt()
        partial = polars.when(left > 1e-9).then((polars.col("value") - one * other) / left).otherwise(0.0)
        found = both.with_columns(value=partial.clip(-1.0, 1.0))
    kind = "partial Spearman, given γ," if given_margin else "Spearman"
    return verdict(
        found, above=0.0, within=CORRELATION, note=f"effect: {kind} of stable rank and mean exact radius"
    )
