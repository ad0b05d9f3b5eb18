"""Pictures of the weights: cosines with the features as heat maps, and the coefficients λ over training."""

from __future__ import annotations

import altair
import polars

from undertow.core.errors import InputError
from undertow.drawing.cosine_maps import cosine_map
from undertow.drawing.palette import KINDS
from undertow.drawing.titles import mean_of_seeds, small_title
from undertow.studies.feature_averaging.lines import after_training
from undertow.studies.feature_averaging.sizes import most

__all__ = ["coefficients_over_training", "cosine_maps"]

_PAIR = r"^\d+:\d+$"  # the key of one neuron and one feature


def cosine_maps(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Fig 1 of the slides: cosines of neurons and features, for binary and for cluster labels."""
    pairs = (
        after_training(frame, "feature-cosines")
        .filter(polars.col("key").str.contains(_PAIR))
        .with_columns(polars.col("key").str.split_exact(":", 1).struct.rename_fields(["neuron", "feature"]))
        .unnest("key")
        .with_columns(polars.col("neuron").cast(polars.Int64), polars.col("feature").cast(polars.Int64))
    )
    labels = {"averaging": "binary labels: averaging", "decoupling": "cluster labels: decoupling"}
    cells = (
        pairs.group_by("part", "neuron", "feature")
        .agg(polars.col("value").mean(), seeds=polars.col("seed").n_unique())
        .with_columns(polars.col("part").replace(labels))
        .sort("part", "neuron", "feature")
    )
    layers = cosine_map(
        cells,
        x="feature",
        y="neuron",
        x_title="feature μ_j, positive class first",
        y_title="neuron, positive sign first",
        side=300,
        number=".2f",
        letters=9,
    )
    seeds = mean_of_seeds(cells["seeds"], band=False)
    text = f"cos(w_r, μ_j) after training, d = {most(frame, 'd')}; {seeds}"
    chart: altair.TopLevelMixin = (
        layers.facet(column=altair.Column("part:N", title=None, sort=list(labels.values())))
        .resolve_scale(y="independent")
        .properties(title=small_title(text))
    )
    return chart


def coefficients_over_training(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """λ of every neuron and feature over the steps, of one seed: own class and other class."""
    chosen = frame.filter(
        (polars.col("measure") == "feature-coefficients")
        & polars.col("key").str.contains(_PAIR)
        & (polars.col("seed") == polars.col("seed").min())
    )
    if chosen.is_empty():
        raise InputError("no record of the coefficients over training")
    pairs = chosen.with_columns(
        polars.col("key").str.split_exact(":", 1).struct.rename_fields(["neuron", "feature"])
    ).unnest("key")
    neuron, feature = polars.col("neuron").cast(polars.Int64), polars.col("feature").cast(polars.Int64)
    # balanced signs, equally many clusters: the first halves belong together
    own = (neuron < (neuron.max() + 1) / 2) == (feature < (feature.max() + 1) / 2)
    sides = ["own class", "other class"]
    tidy = pairs.with_columns(
        side=polars.when(own).then(polars.lit(sides[0])).otherwise(polars.lit(sides[1])),
        pair=polars.format("{}:{}", "neuron", "feature"),
    ).select("step", "value", "side", "pair")
    data = altair.InlineData(values=tidy.sort("pair", "step").to_dicts())
    colour = altair.Color(
        "side:N", title=None, sort=sides, scale=altair.Scale(domain=sides, range=list(KINDS[:2]))
    )
    text = f"λ of w(t) − w(0) for every neuron and feature, seed {min(frame['seed'])}, d = {most(frame, 'd')}"
    chart: altair.TopLevelMixin = (
        altair.Chart(data)
        .mark_line(strokeWidth=0.8, opacity=0.6)
        .encode(
            altair.X("step:Q", title="step"),
            altair.Y("value:Q", title="coefficient λ"),
            colour,
            altair.Detail("pair:N"),
            tooltip=["pair:N", "step:Q", "value:Q"],
        )
        .properties(
            width=380,
            height=240,
            title=small_title(text),
        )
    )
    return chart
