"""M-c to M-f and M-r: the smoothed margin, its rates, and the KKT conditions of networks with one to four layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import polars

from undertow.studies.kit.claim import CORRELATION, POSITIVE, Finding
from undertow.studies.kit.per_seed import by_value, mean, rank_correlation, slopes, verdict
from undertow.studies.kit.readings import after_training, measured, smallest
from undertow.studies.kit.statements import Claims
from undertow.studies.margin.curves_of_loss import against_loss, with_time
from undertow.studies.margin.homogeneous.parts import DEEP_LINEAR, RATES

__all__ = ["CLAIMS", "flow"]

_LYU_LI = "Lyu & Li 2020; Li 2024 talk, Margin Maximization"
_ROUNDING = 1e-9
_NEAR = 0.01
_SMALL = "{place:g}: {mean:.2g}"
CLAIMS = Claims(_LYU_LI, parts=("monotone",), figure="smoothed-margin")
_BY = ["seed", "learning_rate"]
_SELDOM = (
    "the line is the first one; γ̃ was read every few decades of the loss at first, where falls between readings "
    "were not seen, and none was found: then after every step"
)
_OF_FALLS = {
    "total": "total decrease of γ̃ over its last value, every step counted",
    "deepest": "deepest fall of γ̃ below its highest value so far",
}
_ADDED = "added once totals over every step had been seen not to vanish with the steps where units stay at their kink"
_LEAPT = (
    "with steps α/𝓛 from a usual start the exponents had been wrong: steps near the end lowered the loss by decades, "
    "and the margin was still rising fivefold; equal falls of log 𝓛 from a small start came after"
)
_FORTY = "ten seeds, and ten others, had left M-f open with seven each on its side: at laptop scale there are forty"
_NEARER = (
    "from a start of σ = 0.1 and with free slopes within 1e-6 of a kink it had failed with 0.14 at 10^-100: what was "
    f"left of the start, and units that steps leave beside their kink; the line is the same. Then {_FORTY}"
)
_SEEN = (
    "the line is the first one; start, steps and kinks of its part were changed after M-f had been seen to fail; then "
    f"{_FORTY}"
)
falls = partial(CLAIMS.add, figure="margin-falls")
of_orders = partial(CLAIMS.add, parts=[*(f"rates-{order}" for order in RATES), DEEP_LINEAR], figure="rates")
of_limit = partial(CLAIMS.add, parts=("stationary",), figure="kkt-residuals", hindsight=_SEEN)
with_biases = partial(
    CLAIMS.add,
    source="Li 2024 talk, Margin Maximization (Chatterji, Long & Bartlett)",
    parts=("biased",),
    hindsight=_SEEN,
)


@falls(
    "M-c",
    "The smoothed normalised margin does not decrease after t0: the limit of its decreases as steps vanish.",
    "Theorem 4.1",
    hindsight=_SELDOM,
)
def monotone(frame: polars.DataFrame) -> Finding:
    """Per seed the total decrease of γ̃ over all steps after t0, relative to its last value, where η → 0.

    That is where a line through the totals of the three shortest lengths meets η = 0, or 0 where it is below.
    """
    totals = _falls(frame, "total")
    note = [
        "effect: total decrease of γ̃ over its last value, every step counted, extrapolated to η = 0",
        f"by η: {by_value(totals, 'learning_rate', form=_SMALL)}",
        f"steps that lower it, by η: {by_value(_falls(frame, 'count'), 'learning_rate', form='{place:g}: {mean:.3g}')}",
    ]
    return verdict(_where_steps_vanish(totals), below=_ROUNDING, within=POSITIVE, note=note)


@falls(
    "M-c.deepest",
    "What it loses at any moment of what it had before vanishes with the steps.",
    "Theorem 4.1",
    hindsight=_ADDED,
)
def shallower(frame: polars.DataFrame) -> Finding:
    """Per seed the deepest fall of γ̃ below its highest value so far: that of the shortest steps over the longest's.

    The flow's path is the limit of theirs, uniformly: if its γ̃ never falls, the deepest fall goes to 0, whether
    or not many small ones add up to something.
    """
    deepest = _falls(frame, "deepest")
    ends = polars.col("value").sort_by("learning_rate")
    ratio = deepest.group_by("seed").agg(short=ends.first(), long=ends.last()).filter(polars.col("long") > 0)
    note = [
        "effect: deepest fall of γ̃ below its highest value so far, shortest steps over longest",
        f"by η: {by_value(deepest, 'learning_rate', form=_SMALL)}",
    ]
    table = ratio.with_columns(value=polars.col("short") / polars.col("long"))
    return verdict(table, below=0.1, within=POSITIVE, note=note)


@of_orders(
    "M-c.orders",
    "Nor does that of networks with one, two, three and four layers, and of three linear ones.",
    "Theorem 4.1",
    hindsight=_SELDOM,
)
@of_orders(
    "M-c.orders-deepest",
    "And at no moment do these lose more than a thousandth of what they had.",
    "Theorem 4.1",
    hindsight=_ADDED,
    key="deepest",
)
@with_biases(
    "M-r.margin",
    "With biases everywhere, log(1/𝓛)/ρ² rises as a smoothed margin does.",
    hindsight=f"{_SEEN}; and {_SELDOM}",
)
@with_biases(
    "M-r.deepest",
    "And at no moment does it lose more than a thousandth of what it had.",
    hindsight=_ADDED,
    key="deepest",
)
def falls_little(frame: polars.DataFrame, key: str = "total") -> Finding:
    """Per seed the largest total decrease, or deepest fall, of the depths; with biases there is one, and L is 2."""
    down = _falls(frame, key, by=("seed", "part"))
    note = f"effect: {_OF_FALLS[key]}, worst depth; {by_value(down, 'part', form='{place}: {mean:.2g}')}"
    return verdict(down, over="max", below=1e-3, within=POSITIVE, note=note)


def _falls(frame: polars.DataFrame, key: str, *, by: Sequence[str] = _BY) -> polars.DataFrame:
    """What ``margin-falls`` has of every network at the end: the columns ``by`` and value."""
    return after_training(frame, "margin-falls", key).select(*by, "value")


def _where_steps_vanish(table: polars.DataFrame, lengths: int = 3) -> polars.DataFrame:
    """Per seed the value at η = 0 of the least-squares line through those of the shortest ``lengths``, at least 0.

    >>> rows = {"seed": [0] * 4, "learning_rate": [0.1, 0.2, 0.3, 0.8], "value": [3.0, 5.0, 7.0, 99.0]}
    >>> round(_where_steps_vanish(polars.DataFrame(rows))["value"][0], 9)
    1.0
    """
    shortest = sorted(table["learning_rate"].unique().to_list())[:lengths]
    found = []
    for (seed,), own in table.filter(polars.col("learning_rate").is_in(shortest)).group_by("seed"):
        x, y = (own[name].to_numpy() for name in ("learning_rate", "value"))
        slope = np.polyfit(x, y, 1)[0] if len(own) > 1 else 0.0
        found.append({"seed": seed, "value": max(float(y.mean() - slope * x.mean()), 0.0)})
    return polars.DataFrame(found)


@CLAIMS.add("M-c.strict", "Either the smoothed margin rises or the direction stands still.", "Lemma 5.1")
def strict(frame: polars.DataFrame) -> Finding:
    """Per seed the largest L·turn²/(Δlog γ̃ · Δlog ρ) between two readings, which the flow keeps below 1.

    From d log γ̃/dt ≥ L ‖dθ̂/dt‖²/(d log ρ/dt) by Cauchy and Schwarz.
    """
    table = smallest(against_loss(frame, "direction", by=_BY), "learning_rate").filter(
        polars.col("smoothed") > 0
    )
    rise, growth = (polars.col(name).log().diff().over(_BY) for name in ("smoothed", "norm"))
    turned = polars.col("order") * polars.col("since-last").pow(2)
    table = table.with_columns(room=rise * growth).drop_nulls("room")
    # A turn without a rise is as far beyond the line as any number.
    share = (turned / polars.col("room").clip(lower_bound=1e-300)).clip(upper_bound=1e6)
    note = "effect: largest L·turn²/(Δlog γ̃ Δlog ρ) of any two readings in a row, with the shortest steps"
    return verdict(table.with_columns(value=share), over="max", below=1.0, note=note)


@CLAIMS.add(
    "M-d",
    "The margin and the smoothed one converge to each other: 0 ≤ γ̄ − γ̃ ≤ log(n(C − 1))/ρ^L.",
    "Theorem 4.1",
    check="an inequality between a minimum and its softened form",
)
def both_margins(frame: polars.DataFrame) -> Finding:
    """Per seed the largest (γ̄ − γ̃) ρ^L/log n, which is between 0 and 1; a negative one counts as 2."""
    gap = (polars.col("normalised") - polars.col("smoothed")) * polars.col("norm").pow(polars.col("order"))
    table = against_loss(frame, by=[*_BY, "n"]).with_columns(gap=gap / polars.col("n").log())
    value = polars.when(polars.col("gap") < -1e-6).then(2.0).otherwise(polars.col("gap"))
    return verdict(
        table.with_columns(value=value),
        over="max",
        below=1.0 + 1e-6,
        note="effect: largest (γ̄ − γ̃) ρ^L/log n",
    )


def rate(frame: polars.DataFrame, order: int, side: str) -> Finding:
    """Per seed the slope of log 1/(t𝓛), or of log ρ^L, on log log t: in theory 2 − 2/L, or 1."""
    table = with_time(against_loss(frame, by=["seed"]), frame, by=["seed"])
    table = table.filter(polars.col("log_time") > 20).with_columns(x=polars.col("log_time").log())
    what, theory, fitted = {
        "loss": ("log 1/(t𝓛)", 2 - 2 / order, math.log(10) * polars.col("fallen") - polars.col("log_time")),
        "norm": ("log ρ^L", 1.0, order * polars.col("norm").log()),
    }[side]
    note = f"effect: slope of {what} on log log t from log t = 20 on; theory: {theory:g}"
    found = slopes(table.with_columns(fitted=fitted), "x", "fitted")
    return verdict(found, between=(theory - 0.25, theory + 0.25), note=note)


for _order in RATES:
    _known = None if _order == 1 else _LEAPT
    _add = partial(CLAIMS.add, parts=(f"rates-{_order}",), figure="rates", hindsight=_known, order=_order)
    _layers = "one layer" if _order == 1 else f"{_order} layers"
    _loss = f"The loss of {_layers} falls like 1/(t (log t)^{2 - 2 / _order:.3g})."
    _add(f"M-e.loss-{_order}", _loss, "Theorem 4.3", side="loss")(rate)
    _norm = f"The norm of {_layers} grows like (log t)^(1/{_order})."
    _add(f"M-e.norm-{_order}", _norm, "Theorem 4.3", side="norm")(rate)


@of_limit("M-f", "The limit direction is a KKT point: stationarity.", "Theorem 4.4", hindsight=_NEARER)
@of_limit("M-f.slack", "And complementary slackness.", "Theorem 4.4", hindsight=_NEARER, key="slackness")
@with_biases("M-r.kkt", "With biases everywhere the limit direction is a KKT point, nearly.")
def stationary(frame: polars.DataFrame, key: str = "residual") -> Finding:
    """Per seed the residual at the end, with the shortest steps; the start's is said beside it."""
    last = smallest(after_training(frame, "kkt", key), "learning_rate")
    start = measured(frame, "kkt", key, step=0)
    note = f"effect: {key} at the end, with the shortest steps; at the start {mean(start['value']):.2g}"
    return verdict(last, below=_NEAR, note=note)


@of_limit("M-f.falls", "The residual falls as the loss does.", "Theorem 4.4")
def residual_falls(frame: polars.DataFrame) -> Finding:
    """Per seed Spearman's correlation of the residual with log 1/𝓛 after t0; the power of log 1/𝓛 stands beside it."""
    table = flow(frame)
    trend = rank_correlation(table, "fallen", "residual", by=["seed"])
    power = slopes(table.filter(polars.col("residual") > 0), "fallen", "residual", log=True)
    note = f"effect: Spearman of residual and log 1/𝓛 after t0; it falls like log(1/𝓛)^{mean(power['value']):.2f}"
    return verdict(trend, below=0.0, within=CORRELATION, note=note)


@of_limit(
    "M-f.lazy",
    "It is far smaller than that of a lazily trained network.",
    "Theorem 4.4",
    parts=("stationary", "lazy"),
)
def beside_lazy(frame: polars.DataFrame) -> Finding:
    """Per seed the residual at the end over that of the network from a large start at a loss of 10^-2."""
    last = after_training(frame, "kkt", "residual")
    own = smallest(last.filter(polars.col("part") == "stationary"), "learning_rate").select("seed", "value")
    lazy = last.filter(polars.col("part") == "lazy").select("seed", lazy="value")
    both = own.join(lazy, on="seed").with_columns(value=polars.col("value") / polars.col("lazy"))
    note = f"effect: residual over that of a lazily trained network, which has {mean(both['lazy']):.2g}"
    return verdict(both, below=0.5, within=POSITIVE, note=note)


@of_limit("M-f.direction", "The direction converges.", "Ji & Telgarsky 2020", figure="direction")
def direction_settles(frame: polars.DataFrame) -> Finding:
    """Per seed how far the direction turns per unit of log log 1/𝓛: Spearman with log 1/𝓛."""
    table = flow(frame).with_columns(x=polars.col("fallen").log())
    speed = polars.col("since-last") / polars.col("x").diff().over("seed")
    turns = table.with_columns(speed=speed).drop_nulls("speed")
    trend = rank_correlation(turns, "fallen", "speed", by=["seed"])
    note = "effect: Spearman of the turn per unit of log log 1/𝓛 with log 1/𝓛"
    return verdict(trend, below=0.0, within=CORRELATION, note=note)


def flow(frame: polars.DataFrame) -> polars.DataFrame:
    """Margins, direction and KKT conditions after t0, with the shortest steps."""
    return smallest(against_loss(frame, "direction", "kkt", by=_BY), "learning_rate")
