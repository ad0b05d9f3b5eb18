"""Cosines of neurons with features as heat maps, the coefficients λ over training, and the scale of the start."""

from __future__ import annotations

from typing import Any

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.heat_map import HeatMap
from undertow.drawing.inline_rows import inline_rows
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.palette import KINDS
from undertow.drawing.titles import small_title
from undertow.studies.feature_averaging.cluster_tables import most, networks
from undertow.studies.kit.readings import after_training, measured, split_key
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

FIGURES = Figures()


@FIGURES.add("cosines", "Averaged and decoupled features", parts=["averaging", "decoupling"])
def cosine_maps(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Fig 1 of the slides: cosines of neurons and features, for binary and for cluster labels."""
    labels = {"averaging": "binary labels: averaging", "decoupling": "cluster labels: decoupling"}
    pairs = _of_pairs(after_training(frame, "feature-cosines"))
    maps = HeatMap(
        x="feature",
        y="neuron",
        cosines=True,
        column="part",
        x_title="feature μ_j, positive class first",
        y_title="neuron, positive sign first",
        title=f"cos(w_r, μ_j) after training, d = {most(frame, 'd')}",
        side=300,
        letters=9,
    )
    chart: Any = maps.draw(pairs.sort("part", "neuron").with_columns(polars.col("part").replace(labels)))
    independent: altair.TopLevelMixin = chart.resolve_scale(y="independent")
    return independent


@FIGURES.add("coefficients", "Coefficients λ over training", parts=["averaging"])
def coefficients_over_training(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """λ of every neuron and feature over the steps, of one seed: own class and other class."""
    seed, neuron, feature = min(frame["seed"]), polars.col("neuron"), polars.col("feature")
    rows = measured(frame, "feature-coefficients", what="the coefficients over training", seed=seed)
    # balanced signs, equally many clusters: the first halves belong together
    own = (neuron < (neuron.max() + 1) / 2) == (feature < (feature.max() + 1) / 2)
    sides = ["own class", "other class"]
    tidy = _of_pairs(rows).select(
        "step",
        "value",
        side=polars.when(own).then(polars.lit(sides[0])).otherwise(polars.lit(sides[1])),
        pair=polars.format("{}:{}", "neuron", "feature"),
    )
    scale = altair.Scale(domain=sides, range=list(KINDS[:2]))
    text = f"λ of w(t) − w(0) for every neuron and feature, seed {seed}, d = {most(frame, 'd')}"
    chart: altair.TopLevelMixin = (
        altair.Chart(inline_rows(tidy.sort("pair", "step").to_dicts()))
        .mark_line(strokeWidth=0.8, opacity=0.6)
        .encode(
            altair.X("step:Q", title="step"),
            altair.Y("value:Q", title="coefficient λ"),
            altair.Color("side:N", title=None, sort=sides, scale=scale),
            altair.Detail("pair:N"),
            tooltip=["pair:N", "step:Q", "value:Q"],
        )
        .properties(width=380, height=240, title=small_title(text))
    )
    return chart


@FIGURES.add("start", "Averaging and the scale of the start", parts=["start"])
def spread_by_start(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """How unequal the own-class coefficients are, and how far from ∝ Σμ_j the weights, by the scale of the start."""
    change, weights = networks(frame, "feature-coefficients"), networks(frame, "feature-cosines")
    spread, across = polars.col("own_spread"), 1 - polars.col("aligned")
    curves = {
        "largest |λ_j / mean λ − 1| in the own class": (change, spread),
        "1 − cosine of w(T) with Σμ_j": (weights, across),
        "1 − cosine of w(T) − w(0) with Σμ_j": (change, across),
    }
    tidy = polars.concat(
        table.select("seed", "std", value=value, curve=polars.lit(name))
        for name, (table, value) in curves.items()
    )
    return LinePlot(
        x="std",
        x_axis=Axis("start σ_w; the last is 1/√d", log=True, ticks="data", form="~g"),
        y=Axis("distance from averaging", zero=True),
        colour="curve",
        title=f"0 is exact averaging; d = {most(change, 'd')}",
        size=(400, 280),
    ).draw(tidy)


def _of_pairs(rows: polars.DataFrame) -> polars.DataFrame:
    """The readings of one neuron and one feature each."""
    pairs = split_key(rows.filter(polars.col("key").str.contains(r"^\d+:\d+$")), ["neuron", "feature"])
    return pairs.with_columns(polars.col("neuron", "feature").cast(polars.Int64))
