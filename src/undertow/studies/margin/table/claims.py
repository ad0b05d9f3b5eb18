"""M-g to M-j, M-m to M-o, M-q: margins and radii of one network at ever smaller losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import CORRELATION, POSITIVE, SHARE, Finding
from undertow.studies.kit.per_seed import by_value, mean, per_seed, rank_correlation, verdict
from undertow.studies.kit.readings import after_training, measured, side_by_side, split_key
from undertow.studies.kit.statements import Claims, PublishedNumbers
from undertow.studies.margin.curves_of_loss import SMALL_LOSS

__all__ = ["CLAIMS", "PUBLISHED", "TEST", "margins_and_errors", "models", "radii_of_models"]

_TALK = "Li 2024 talk, Robustness"
CLAIMS = Claims(_TALK, parts=("table",), figure="margin-table")
PUBLISHED = PublishedNumbers("Li 2024, the talk", parts=("table", "longest"), so_far=True)
TEST = "point-radii@test"
_BY = ["seed", "model"]
_NEAR = 0.01
"""Of a printed loss, in decades: a reading this much beside it, or a few epochs, is one of the same model."""
_EPOCHS_PAST = 0.3
_THEOREM = "a theorem (Sokolic et al. 2017), beside radii that are solved or come from above"
_TEN = (
    "two points a seed had left M-h and M-n open; twenty, by closest examples alone, had been seen to leave them open "
    "and to hold on other seeds; ten are as many as the time allows"
)
about_radii = partial(CLAIMS.add, figure="robust-curves", hindsight=_TEN)
bounded = partial(CLAIMS.add, figure="robust-curves", check=_THEOREM)
solved = partial(bounded, radius="exact")
_BARTLETT = "Bartlett et al. 2017; Jiang et al. 2020; Li 2024 talk"
generalising = partial(CLAIMS.add, source=_BARTLETT, figure="margin-and-error")
beside_margin = partial(CLAIMS.add, source="Li 2024 talk, Margin and Robustness", hindsight=_TEN)
_RULES = ("rule-loss-based", "rule-constant")
_FITTED = (
    "the line is the first one; the constant rate was 0.01 over 300 epochs at first, where its networks had not fitted "
    "all points, and margins were compared at the last epoch; 0.3 and 600 epochs were then chosen by training losses"
)
_LAYERS = "added once it was known that the talk's table is by the layers' norms"
_BOTH = f"{_LAYERS}; {_TEN}"
of_rules = partial(CLAIMS.add, source="Li 2024 talk, Experiments", parts=_RULES, figure="both-rules")


@CLAIMS.add("M-g", "Training longer raises the normalised margin, from a loss of 10^-10 to one of 10^-20.")
@CLAIMS.add("M-g.layers", "Also where it is normalised by the product of the layers' norms.", key="by-layers")
def margin_rises(frame: polars.DataFrame, key: str = "normalised") -> Finding:
    """Per seed the margin at the loss nearest to 10^-20 over that nearest to 10^-10."""
    table = models(frame, "margins", key)
    longer = _nearest(table, 20).join(_nearest(table, 10), on="seed", suffix="_first")
    ratio = longer.with_columns(value=polars.col("value") / polars.col("value_first"))
    means = by_value(table, "model", form=_AT)
    return verdict(ratio, above=1.0, note=f"effect: ratio of normalised margins; means of {means}")


_AT = "model-{place:g}: {mean:.3g}"


@about_radii("M-h", "And makes the network slightly more robust, at training points.")
@about_radii("M-h.test", "And at test points.", measure=TEST)
def radius_rises(frame: polars.DataFrame, measure: str = "point-radii") -> Finding:
    """Per seed the mean attacked radius of the longest training over that of the shortest.

    On points that all models of the seed classify correctly. What is proved stands beside it.
    """
    table = radii_of_models(frame, measure)
    each = table.group_by("seed", "model").agg(polars.col("attacked").mean())
    radius = polars.col("attacked").sort_by("model")
    ends = each.group_by("seed").agg(value=radius.last() / radius.first())
    proved = "certified" if "certified" in table.columns else "product"
    note = [
        "effect: ratio of mean attacked L2 radii, longest training over shortest",
        f"means of {by_value(table, 'model', value='attacked', form=_AT)}",
        f"{proved} of {by_value(table, 'model', value=proved, form=_AT)}",
    ]
    return verdict(ends, above=1.0, within=POSITIVE, note=note)


@bounded("M-i", "R(z) ≥ q/β, with β the product of the layers' norms.")
@bounded("M-i.ball", "And with β proved over a ball.", side="ball")
@solved("M-i.exact", "And of narrow networks, whose radii are solved.", parts=("clusters-trained",))
@solved("M-i.exact-ball", "And of these with β proved over a ball.", parts=("bounds",), side="ball")
def bound_holds(frame: polars.DataFrame, side: str = "product", radius: str = "attacked") -> Finding:
    """Per seed the smallest radius over the bound; how loose the bound is stands beside it."""
    points = split_key(after_training(frame, "point-radii"), ["side", "i"])
    table = points.pivot("side", index=["seed", "trial", "i"], values="value")
    if not {side, radius} <= set(table.columns):
        raise InputError(f"no record of {side} and {radius} radii")
    ratio = table.filter(polars.col(side) > 0).with_columns(value=polars.col(radius) / polars.col(side))
    note = f"effect: smallest {radius} radius over q/β ({side}); the mean is {mean(ratio['value']):.3g}"
    return verdict(ratio, over="min", above=1.0 - 1e-6, note=note)


@of_rules("M-j", "With a constant rate the margin grows far slower per epoch.", hindsight=_FITTED)
@of_rules("M-j.layers", "Also by the layers' norms.", key="by-layers", hindsight=f"{_LAYERS}; {_FITTED}")
def constant_is_slower(frame: polars.DataFrame, key: str = "normalised") -> Finding:
    """Per seed how much the normalised margin grows after t0 by the loss-based rule, minus the same at a constant rate.

    Relative to the larger of both, over as many epochs from either network's own t0 on. Not known (NaN) of a seed
    where one of them has not come to its t0, before which there is no margin to grow.
    """
    rows = side_by_side(frame, "margins", by=["part", "seed", "step", "epoch"])
    found = []
    for (seed,), own in rows.group_by("seed"):
        late = [
            own.filter(polars.col("part") == part, polars.col("log10-loss") < SMALL_LOSS) for part in _RULES
        ]
        since = [(each["step"] - each["step"][0]).to_numpy() for each in late if len(each)]
        steps = min(float(each[-1]) for each in since) if len(since) == 2 else 0.0
        grown, epochs = [math.nan, math.nan], 0.0
        if steps > 0:
            after = zip(since, late, strict=True)
            grown = [float(np.interp(steps, x, y[key].to_numpy())) - y[key][0] for x, y in after]
            epochs = min(float(each["epoch"][-1] - each["epoch"][0]) for each in late)
        found.append({"seed": seed, "epochs": epochs, **dict(zip(("one", "other"), grown, strict=True))})
    both = polars.DataFrame(found).filter(polars.col("epochs") > 0)
    if both.is_empty():
        raise InputError("no seed has come down to 𝓛 < log 2 by both rules: train longer")
    larger = polars.max_horizontal(polars.col("one", "other").abs())
    gain = polars.DataFrame(found).with_columns(value=(polars.col("one") - polars.col("other")) / larger)
    note = [
        "effect: (growth of γ̄ by the loss-based rule − at a constant rate)/the larger, over equal epochs after t0",
        f"{mean(both['epochs']):.0f} epochs in the mean; growth {mean(both['one']):.3g}, {mean(both['other']):.3g}",
        f"seeds not fitted by both: {len(found) - len(both)}" if len(both) < len(found) else "",
    ]
    return verdict(gain, above=0.5, note=note)


@about_radii("M-n", "Robustness follows the margin, at training points.")
@about_radii("M-n.test", "And at test points.", measure=TEST)
@about_radii("M-n.layers", "Also by the layers' norms.", key="by-layers", hindsight=_BOTH)
@about_radii("M-n.layers-test", "And at test points.", measure=TEST, key="by-layers", hindsight=_BOTH)
def follows(frame: polars.DataFrame, measure: str = "point-radii", key: str = "normalised") -> Finding:
    """Per seed Spearman's correlation of normalised margin and mean attacked radius over its models."""
    margin = models(frame, "margins", key).select(*_BY, margin="value")
    radius = radii_of_models(frame, measure).group_by(_BY).agg(polars.col("attacked").mean())
    trend = rank_correlation(margin.join(radius, on=_BY), "margin", "attacked", by=["seed"])
    note = "effect: Spearman of normalised margin and mean attacked radius over the models of a seed"
    return verdict(trend, above=0.0, within=CORRELATION, note=note)


@generalising("M-o", "A larger normalised margin goes with better generalisation.", parts=("starts",))
@generalising(
    "M-o.labels",
    "Also where margins are small because labels are random.",
    parts=("mixed",),
    figure="margin-and-error-labels",
    hindsight="it held at smoke scale at a loss of 10^-10; 10^-3 came after, as random labels took too long",
    axis="share",
)
def generalises(frame: polars.DataFrame, axis: str = "std") -> Finding:
    """Per seed Spearman's correlation of normalised margin and test error over an axis, at equal training loss."""
    both = margins_and_errors(frame, axis)
    trend = rank_correlation(both, "margin", "error", by=["seed"]).drop_nulls("value")
    what = {"std": "starts", "share": "shares of random labels"}[axis]
    note = [
        f"effect: Spearman of γ̄ and test error over {what}",
        f"errors {by_value(both, axis, value='error')}",
        f"margins {by_value(both, axis, value='margin', form='{place:g}: {mean:.3g}')}",
    ]
    return verdict(trend, below=0.0, within=CORRELATION, note=note)


def margins_and_errors(frame: polars.DataFrame, axis: str) -> polars.DataFrame:
    """Normalised margin and test error of every network that fits its training points."""
    by = ["seed", axis]
    margin = after_training(frame, "margins", "normalised").select(*by, margin="value")
    error = after_training(frame, "accuracy@test").select(*by, error=1 - polars.col("value"))
    return margin.join(error, on=by).filter(polars.col("margin") > 0)


@beside_margin(
    "M-p.trained",
    "An adversarially trained network has a smaller normalised margin and a larger radius.",
    parts=("table", "adversarial"),
)
def adversarial_training(frame: polars.DataFrame) -> Finding:
    """Per seed 1 where both are so, beside the network that was trained longest, and 0 elsewhere."""
    radii = after_training(frame, "point-radii").filter(polars.col("key").str.starts_with("attacked:"))
    radius = radii.group_by("seed", "part").agg(radius=polars.col("value").mean())
    margin = after_training(frame, "margins", "normalised").select("seed", "part", margin="value")
    both = radius.join(margin, on=["seed", "part"]).pivot("part", index="seed", values=["radius", "margin"])
    below = polars.col("margin_adversarial") < polars.col("margin_table")
    above = polars.col("radius_adversarial") > polars.col("radius_table")
    shown = [f"{name} {mean(both[name]):.3g}" for name in both.columns if name != "seed"]
    note = f"effect: share of seeds where both are so; means: {', '.join(shown)}"
    agree = both.with_columns(value=(below & above).cast(polars.Float64))
    return verdict(agree, above=0.5, within=SHARE, note=note)


@beside_margin("M-q", "Every training point is close to the boundary.")
@beside_margin("M-q.test", "And so is every test point.", measure=TEST)
def close(frame: polars.DataFrame, measure: str = "point-radii") -> Finding:
    """Per seed the largest radius over half the distance to the nearest training point of another class."""
    table = radii_of_models(frame, measure).with_columns(value=polars.col("attacked") / polars.col("half"))
    note = f"effect: largest attacked radius over half the distance to another class; mean {mean(table['value']):.3g}"
    return verdict(table, over="max", below=1.0, within=POSITIVE, note=note)


_PLACE = "table of models"
_PRINTED = {
    "model-1": (-10.04, 38, "5.65e-5"),
    "model-2": (-15.12, 75, "9.50e-5"),
    "model-3": (-20.07, 107, "1.30e-4"),
    "model-4": (-120.01, 935, "4.61e-4"),
    "model-5": (-881.51, 10000, "1.18e-3"),
}


def _ours(
    frame: polars.DataFrame, level: float, key: str = "normalised", column: str = "value"
) -> Sequence[float | None]:
    """Of each network the model nearest to a printed loss; none within a hundredth of it, in decades, is an error.

    Networks are looked at when an epoch has brought them past a loss: that may be 0.3 decades further.
    """
    away = (polars.col("fallen") + level).abs()
    own = models(frame, "margins", key).with_columns(away=away)
    own = own.filter(polars.col("away") <= max(-_NEAR * level, _EPOCHS_PAST))
    if own.is_empty():
        raise InputError(f"no network was trained to a loss of 10^{level:g}")
    nearest = own.sort("away", "step").group_by("trial", maintain_order=True).first()
    return per_seed(nearest, column)


for _model, (_level, _epochs, _margin) in _PRINTED.items():
    for _key, _how in {"normalised": "by ρ^L", "by-layers": "by the layers' norms"}.items():
        _what = f"normalised margin of {_model}, {_how}"
        PUBLISHED.add(_what, _margin, _PLACE, level=_level, key=_key)(_ours)
    PUBLISHED.add(f"epochs of {_model}", str(_epochs), _PLACE, level=_level, column="epoch")(_ours)


def models(frame: polars.DataFrame, measure: str, key: str | None = None) -> polars.DataFrame:
    """A measure of the table's models: ``model`` counts the losses at which a network was looked at, from 1.

    ``fallen`` is log₁₀ 1/loss there, the loss a mean over the points, as training ends by it.
    """
    loss = measured(frame, "steps", "log10_loss").select("trial", "step", fallen=-polars.col("value"))
    rows = measured(frame, measure, key).join(loss, on=["trial", "step"])
    return rows.with_columns(model=polars.col("step").rank("dense").over("trial").cast(polars.Int64))


def radii_of_models(frame: polars.DataFrame, measure: str) -> polars.DataFrame:
    """A row for each point that all models of a seed classify correctly, and model: its radii from all sides.

    The longest training is that of the table's first seed, which goes on: its models are those after the table's.
    """
    rows = models(frame, measure)
    goes_on = polars.col("part") == "longest"
    last = rows.filter(~goes_on)["model"].max() or 0
    points = split_key(rows.filter(~goes_on | (polars.col("model") > last)), ["side", "i"])
    table = points.pivot("side", index=[*_BY, "i", "fallen"], values="value")
    right = table.filter(polars.col("margin").min().over("seed", "i") > 0).sort(*_BY, "i")
    if right.is_empty():
        raise InputError("no point that all models classify correctly")
    return right


def _nearest(table: polars.DataFrame, fallen: float) -> polars.DataFrame:
    away = (polars.col("fallen") - fallen).abs()
    return table.filter(away == away.min().over("seed")).select("seed", "value")
