"""How far the order of the starts is followed, over cosines and over data sets."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.scatter_plot import ScatterPlot
from undertow.studies.kit.statements import Figures
from undertow.studies.stable_rank.orthogonality.claims import DATA_PARTS, orders, orders_by_data

__all__ = ["COSINES_ACROSS", "FIGURES", "zero_at_the_left"]

FIGURES = Figures()
_ZERO = 0.0003
COSINES_ACROSS = Axis(
    f"cosine of two points ({_ZERO:g} stands for 0)", log=True, ticks=(_ZERO, 0.001, 0.01, 0.1, 0.3, 0.9)
)


def zero_at_the_left(table: polars.DataFrame) -> polars.DataFrame:
    """The table with a place for cosine 0 on a logarithmic axis, below all others."""
    return table.with_columns(cosine=polars.col("cosine").clip(_ZERO))


_FOLLOWED = "Spearman of stable rank and start"


@FIGURES.add(
    "order-by-cosine",
    "How far the stable ranks follow the starts, from orthogonal points to one direction",
    parts=("cosines",),
)
def by_cosine(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Cosines on a logarithmic axis, 0 at its left end."""
    return LinePlot(
        x="cosine",
        x_axis=COSINES_ACROSS,
        y=_FOLLOWED,
        colour="d",
        legend="dimension",
        rules=(0.0,),
        points=True,
    ).draw(zero_at_the_left(orders(frame).drop_nulls("value")))


@FIGURES.add(
    "order-by-data",
    "How far the stable ranks follow the starts, by data set and how nearly orthogonal its samples are (ReLU)",
    parts=DATA_PARTS,
)
def by_data(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """A point per seed."""
    across = Axis("min ‖x‖²/(n·max|⟨x, x′⟩|)", log=True, ticks=(1e-6, 1e-4, 1e-2, 1), form="~g")
    return _scatter(orders_by_data(frame), across)


@FIGURES.add(
    "order-by-cosines-of-data",
    "How far the stable ranks follow the starts, by data set and the mean |cosine| of two samples (ReLU)",
    parts=DATA_PARTS,
)
def by_mean_cosine(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The same by the average pair of samples, not by the nearest one."""
    table = orders_by_data(frame, "cosine").with_columns(near=-polars.col("near"))
    return _scatter(table, Axis("mean |cosine| of two samples, as trained on"))


@FIGURES.add(
    "order-by-features",
    "How far the stable ranks follow the starts, by data set and how its features are correlated (ReLU)",
    parts=DATA_PARTS,
)
def by_features(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The same in the sense of features."""
    table = orders_by_data(frame, "features").with_columns(near=-polars.col("near"))
    return _scatter(table, Axis("mean |correlation| of two features"))


def _scatter(table: polars.DataFrame, across: Axis) -> altair.TopLevelMixin:
    plot = ScatterPlot(
        x="near",
        y="value",
        x_axis=across,
        y_axis=Axis(_FOLLOWED),
        colour="data",
        title="a point for every seed",
    )
    return plot.draw(table)
