"""Figure 1 with either head: the stable rank over training, and in its last fifth; what the neurons do meanwhile."""

from __future__ import annotations

from typing import Any, cast

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.scatter_plot import ScatterPlot
from undertow.studies.kit.readings import curves, measured, stacked
from undertow.studies.kit.statements import Figures
from undertow.studies.stable_rank.genes.figures import without_headings
from undertow.studies.stable_rank.rank_tables import by_start, stable_ranks

__all__ = ["FIGURES"]

FIGURES = Figures()
_ALIGNMENT = {
    "to_means": "cosine to the nearer class mean",
    "to_each_other": "|cosine| of two neurons",
    "own_active": "share active on their own class",
    "active": "share active",
}
_COUNTS = {"directions": "groups of directions", "patterns": "different patterns"}


@FIGURES.add("fig1-left", "Stable rank over training, by init scale (trained head)", since=0.0)
@FIGURES.add("fig1-right", "Stable rank in the last fifth of training (trained head)", since=0.8)
@FIGURES.add(
    "fig1-fixed-left",
    "Stable rank over training, by init scale (fixed head)",
    parts=("fixed-head",),
    since=0.0,
    log=True,
)
@FIGURES.add(
    "fig1-fixed-right",
    "Stable rank in the last fifth of training (fixed head)",
    parts=("fixed-head",),
    since=0.8,
)
def over_training(frame: polars.DataFrame, since: float, log: bool = False) -> altair.TopLevelMixin:
    """Fig 1 left: all epochs, with the loss of the ten points below; right: the last 1000 of 5000."""
    shown = stable_ranks(frame).filter(polars.col("epoch") >= since * polars.col("epoch").max())
    shown = shown.sort("activation", descending=True, maintain_order=True)  # ReLU first, as in the report
    up = Axis("stable rank of W", log=log)
    above = LinePlot(x="epoch", y=up, colour="init", column="activation").draw(shown)
    if since:
        return above
    loss = curves(by_start(frame), "loss", "mean", by=("activation", "seed", "init"))
    loss = loss.sort("activation", descending=True, maintain_order=True)
    below = LinePlot(
        x="epoch", y=Axis("training loss"), colour="init", column="activation", size=(340, 130)
    ).draw(loss)
    panels: altair.TopLevelMixin = altair.vconcat(cast(Any, above), without_headings(below), spacing=4)
    return panels


@FIGURES.add(
    "neurons",
    "Cosines and active shares of the neurons over training (fixed head, ReLU)",
    parts=("fixed-head",),
)
def neurons(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The report's future work: alignment and activation patterns beside the rank."""
    shown = _of_neurons(frame, _ALIGNMENT)
    return LinePlot(
        x="epoch",
        y=Axis("share or cosine", zero=True),
        colour="init",
        column="curve",
        wrap=2,
        size=(300, 180),
    ).draw(shown)


@FIGURES.add(
    "patterns",
    "Stable rank beside groups of directions and different activation patterns (fixed head, ReLU)",
    parts=("fixed-head",),
)
def patterns(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Counts on a logarithmic axis: the rank falls as neurons gather."""
    rank = stable_ranks(frame).filter(polars.col("activation") == "relu").drop("activation")
    rank = rank.with_columns(curve=polars.lit("stable rank of W"))
    counts = _of_neurons(frame, _COUNTS)
    shown = polars.concat([rank.select(counts.columns), counts])
    return LinePlot(
        x="epoch", y=Axis("number", log=True), colour="init", column="curve", size=(260, 220)
    ).draw(shown)


@FIGURES.add(
    "rank-by-neurons",
    "Stable rank beside what the neurons do, every network at every moment read (fixed head, ReLU)",
    parts=("fixed-head",),
)
def rank_by_neurons(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """If the rank is a matter of directions, points lie on one curve; if of patterns alone, on the other."""
    links = {"to_each_other": "mean |cosine| of two neurons", "own_active": "share active on their own class"}
    rank = stable_ranks(frame).filter(polars.col("activation") == "relu").rename({"value": "rank"})
    shown = _of_neurons(frame, links).join(rank, on=["seed", "init", "epoch"])
    return ScatterPlot(
        x="value",
        y="rank",
        x_axis=Axis("share or cosine"),
        y_axis=Axis("stable rank of W", log=True),
        colour="init",
        legend="init",
        column="curve",
        title="a point for every network and moment",
    ).draw(shown.select("init", "curve", "value", "rank"))


@FIGURES.add(
    "glorot",
    "Stable rank from Frei et al.'s Glorot-uniform start beside the Gaussian ones (leaky ReLU)",
    parts=("glorot", "fixed-head"),
)
def beside_glorot(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """All leaky ReLU, the head fixed."""
    rows = by_start(measured(frame, "stable-rank", "hidden.weight"))
    gaussian = rows.filter(polars.col("part") != "glorot", polars.col("activation") == "leaky-relu")
    glorot = rows.filter(polars.col("part") == "glorot")
    named = [
        gaussian.with_columns(start=polars.format("Gaussian, {}", polars.col("init").cast(polars.String))),
        glorot.with_columns(start=polars.lit("Glorot-uniform")),
    ]
    shown = polars.concat([each.select("seed", "start", "epoch", "value") for each in named])
    return LinePlot(x="epoch", y=Axis("stable rank of W", log=True), colour="start").draw(shown)


def _of_neurons(frame: polars.DataFrame, names: dict[str, str]) -> polars.DataFrame:
    rows = by_start(measured(frame, "neuron-alignment", activation="relu"))
    by = ("seed", "init", "epoch")
    wide = rows.filter(polars.col("key").is_in(list(names))).pivot("key", index=by, values="value")
    return stacked(wide, names, by=by)
