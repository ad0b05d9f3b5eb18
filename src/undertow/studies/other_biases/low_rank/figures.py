"""Singular values over training, and errors and ranks by depth beside the solution of least nuclear norm."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.statements import Figures
from undertow.studies.other_biases.low_rank.claims import fitted, singular_values

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("completion",))
_DEPTH = polars.format("depth {}", polars.col("depth"))


@FIGURES.add("singular-values", "Singular values of a product of matrices over training, one seed")
def over_training(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The first seed alone: every seed has a matrix, and times, of its own."""
    table = singular_values(frame)
    first = (polars.col("seed") == polars.col("seed").min()) & (
        polars.col("start") == polars.col("start").max()
    )
    table = table.filter(first).with_columns(
        panel=_DEPTH, singular=polars.format("σ{}", polars.col("place") + 1)
    )
    return LinePlot(
        x="step",
        y="singular value",
        colour="singular",
        column="panel",
        title="Matrix completion",
        size=(260, 200),
    ).draw(table)


@FIGURES.add(
    "completion", "Error over the entries not seen and effective rank, by depth and beside least nuclear norm"
)
def by_depth(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Two panels; the nuclear norm does not depend on the depth."""
    names = {"error": "error over entries not seen", "rank": "effective rank"}
    tables = []
    for key, panel in names.items():
        for measure, curve in (("completion", "product of matrices"), ("nuclear", "least nuclear norm")):
            table = fitted(frame, measure, key).drop_nans()
            tables.append(table.with_columns(panel=polars.lit(panel), curve=polars.lit(curve)))
    return LinePlot(
        x="depth",
        x_axis=Axis("depth", ticks="data"),
        y="",
        colour="curve",
        column="panel",
        own_y=True,
        points=True,
        title="After training",
    ).draw(polars.concat(tables))
