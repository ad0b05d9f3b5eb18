"""Radii of narrow networks as their loss falls, and margins beside radii."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.heat_map import HeatMap
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.scatter_plot import ScatterPlot
from undertow.studies.kit.readings import interpolated
from undertow.studies.kit.statements import Figures
from undertow.studies.margin.fragility.claims import beside_robust, radii_over_training, slopes_of_radii

__all__ = ["FIGURES"]

_PARTS = ("clusters-trained", "clusters-fixed", "orthogonal-trained", "orthogonal-fixed")
_LEVELS = tuple(10 ** (place / 20) for place in range(-6, 61))
FIGURES = Figures(parts=_PARTS)


@FIGURES.add("radius-by-loss", "Exact radii of narrow networks as training goes on")
def radius_by_loss(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Radius over half the distance to the other class against log₁₀ 1/𝓛, a panel for each part."""
    each = [
        radii_over_training(frame.filter(polars.col("part") == part)).with_columns(
            panel=polars.lit(part.replace("-", ", head "))
        )
        for part in _PARTS
    ]
    by = ["seed", "k", "n", "std", "panel"]
    kept = [
        own.with_columns(k=own["k"] if "k" in own.columns else polars.lit(0, dtype=polars.Int64))
        for own in each
    ]
    table = polars.concat(
        [own.select(*by, "fallen", value=polars.col("radius") / polars.col("half")) for own in kept]
    )
    shown = interpolated(table, _LEVELS, by=by, x="fallen").filter(polars.col("value").is_finite())
    # A level that some networks have not reached, or passed before the first reading, would compare others.
    count, panel = polars.len().over("panel", "std", "fallen"), ["panel", "std"]
    shown = shown.with_columns(count=count).filter(
        polars.col("count") == polars.col("count").max().over(panel)
    )
    shown = shown.group_by("seed", *panel, "fallen").agg(polars.col("value").mean())
    return LinePlot(
        x="fallen",
        x_axis=Axis("log₁₀ 1/𝓛", log=True),
        y="radius / half the distance to the other class",
        colour="std",
        legend="start σ",
        column="panel",
        wrap=2,
        title="Training points, mean over clusters and points",
        size=(280, 180),
    ).draw(shown.sort("panel", "std", "fallen"))


@FIGURES.add("slope-map", "Where training on helps and where it hurts")
def slope_map(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The slope of log radius on log log 1/𝓛 by start and data, a map for each part: above 0 training on helps."""
    found = []
    for part in _PARTS:
        table = radii_over_training(frame.filter(polars.col("part") == part))
        own = slopes_of_radii(table)
        k = polars.format("k = {}, ", polars.col("k")) if "k" in own.columns else polars.lit("")
        case = polars.concat_str(k, polars.format("n = {}", polars.col("n")))
        found.append(
            own.select("seed", "std", "value", case=case, panel=polars.lit(part.replace("-", ", head ")))
        )
    return HeatMap(
        x="std",
        y="case",
        x_title="start σ",
        y_title="clusters and points",
        column="panel",
        domain=(-0.2, 0.2),
        number="+.2f",
        title="Slope of log radius on log log 1/𝓛",
    ).draw(polars.concat(found))


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
