"""Radii of narrow networks as their loss falls, and margins beside radii."""

from __future__ import annotations

from collections.abc import Callable

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.heat_map import HeatMap
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.scatter_plot import ScatterPlot
from undertow.studies.kit.statements import Figures
from undertow.studies.margin.curves_of_loss import levelled
from undertow.studies.margin.fragility.claims import beside_robust, radii_over_training, slopes_of_radii

__all__ = ["FIGURES"]

_PARTS = ("clusters-trained", "clusters-fixed", "orthogonal-trained", "orthogonal-fixed")
FIGURES = Figures(parts=_PARTS)


@FIGURES.add("radius-by-loss", "Exact radii of narrow networks as training goes on")
def radius_by_loss(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Radius over half the distance to the other class against log₁₀ 1/𝓛, a panel for each part."""
    table = _each_part(frame, radii_over_training)
    table = table.with_columns(value=polars.col("radius") / polars.col("half"))
    return LinePlot(
        x="fallen",
        x_axis=Axis("log₁₀ 1/𝓛", log=True),
        y="radius / half the distance",
        colour="std",
        legend="start σ",
        column="panel",
        wrap=2,
        title="Training points, mean over clusters and points",
        size=(280, 180),
    ).draw(levelled(table, "panel", "std", within=["k", "n"]))


@FIGURES.add("slope-map", "Where training on helps and where it hurts")
def slope_map(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The slope of log radius on log log 1/𝓛 by start and data, a map for each part: above 0 training on helps."""
    found = _each_part(frame, lambda own: slopes_of_radii(radii_over_training(own)))
    k, n = (polars.col(name).cast(polars.String).str.pad_start(2) for name in ("k", "n"))
    clusters = polars.when(polars.col("k") > 0).then(polars.format("k = {}, n = {}", k, n))
    found = found.with_columns(case=clusters.otherwise(polars.format("n = {}", n)))
    return HeatMap(
        x="std",
        y="case",
        x_title="start σ",
        y_title="clusters and points",
        column="panel",
        domain=(-0.2, 0.2),
        number="+.2f",
        title="Slope of log radius on log log 1/𝓛",
    ).draw(found)


def _each_part(
    frame: polars.DataFrame, table: Callable[[polars.DataFrame], polars.DataFrame]
) -> polars.DataFrame:
    """A table of every part, with its ``panel``; k = 0 where there are no clusters."""
    panels = {part: polars.lit(part.replace("-", ", head ")) for part in _PARTS}
    parts = {part: frame.filter(polars.col("part") == part) for part in _PARTS}
    found = [table(own).with_columns(panel=panels[part]) for part, own in parts.items()]
    return polars.concat(found, how="diagonal_relaxed").with_columns(polars.col("k").fill_null(0))


@FIGURES.add(
    "margin-and-radius",
    "Normalised margin and radius beside f_robust's",
    parts=("clusters-trained", "robust"),
)
def margin_and_radius(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """A point for each trained network: both relative to f_robust on the same points."""
    last = beside_robust(frame).with_columns(
        margin=polars.col("normalised") / polars.col("margin_robust"),
        k=polars.format("k = {}", polars.col("k")),
    )
    return ScatterPlot(
        x="margin",
        y="ratio",
        x_axis=Axis("normalised margin / f_robust's", log=True),
        y_axis=Axis("exact radius / f_robust's"),
        colour="k",
        title="Trained networks at the end, one point each",
    ).draw(last.select("margin", "ratio", "k"))
