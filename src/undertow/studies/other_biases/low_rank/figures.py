"""Singular values over training, errors and ranks by depth beside least nuclear norm, and ranks beside radii."""

from __future__ import annotations

import altair
import numpy as np
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.scatter_plot import ScatterPlot
from undertow.studies.kit.readings import measured
from undertow.studies.kit.statements import Figures
from undertow.studies.other_biases.beside import along_the_loss, read_beside
from undertow.studies.other_biases.low_rank.claims import (
    beside_theory,
    fitted,
    of_classifiers,
    singular_values,
)
from undertow.theory.incremental_learning import growth_of_singular_value

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("completion",))


@FIGURES.add(
    "singular-values", "Singular values of a product of matrices over training and in theory, one seed"
)
@FIGURES.add("singular-values-greedy", "The same of rank 3 in 100 dimensions", parts=("completion-greedy",))
def over_training(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The first seed alone: every seed has a matrix, and times, of its own; theory has an equation for each."""
    one = (polars.col("seed") == polars.col("seed").min()) & (
        polars.col("start") == polars.col("start").max()
    )
    halves = beside_theory(frame).filter(one, polars.col("theory").is_not_null())
    tables = []
    for depth, table in singular_values(frame).filter(one).group_by("depth", maintain_order=True):
        first = halves.filter(polars.col("depth") == depth[0], polars.col("place") == 0)
        table = table.with_columns(time=polars.col("step") / first["step"].item())
        grown = halves.filter(polars.col("depth") == depth[0])["step"].to_list()
        table = table.filter(polars.col("step") <= 3 * max(grown))  # nothing changes afterwards
        tables.append(table.with_columns(panel=polars.format("depth {}: trained", "depth")))
        for row in halves.filter(polars.col("depth") == depth[0]).iter_rows(named=True):
            times, values = growth_of_singular_value(row["last"], start=row["start"], depth=row["depth"])
            own = table.filter(polars.col("place") == row["place"])
            told = np.interp(own["time"].to_numpy() * first["theory"].item(), times, values)
            panel = polars.format("depth {}: the equation of one", "depth")
            tables.append(own.with_columns(value=polars.Series(told), panel=panel))
    return LinePlot(
        x="time",
        x_axis=Axis("time, 1 where the first has half of its last value"),
        y="singular value",
        colour="singular",
        column="panel",
        wrap=2,
        title="Matrix completion",
        size=(280, 160),
    ).draw(polars.concat(tables).with_columns(singular=polars.format("σ{}", polars.col("place") + 1)))


@FIGURES.add(
    "completion", "Error over the entries not seen and effective rank, by depth and beside least nuclear norm"
)
@FIGURES.add("completion-many", "The same with more entries seen", parts=("completion-many",))
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


@FIGURES.add(
    "linear-classes", "Rank and radius of linear classifiers at equal loss", parts=("linear-classes",)
)
def rank_and_radius(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """A point for every network; colours are depths."""
    rank = of_classifiers(frame, "linear-product", "rank").rename({"value": "rank"})
    table = rank.join(of_classifiers(frame, "robustness-profile", "attacked:2"), on=["depth", "seed"])
    return ScatterPlot(
        x="rank",
        y="value",
        x_axis=Axis("effective rank after training to one loss"),
        y_axis=Axis("attacked radius, L2"),
        colour="layers",
        title="Linear networks on images, cross-entropy",
    ).draw(table.sort("depth", "seed").with_columns(layers=polars.format("depth {}", "depth")))


@FIGURES.add(
    "linear-classes-through",
    "Rank of linear classifiers over training, and what is read beside it",
    parts=("linear-classes",),
)
def beside_the_rank(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """A line for each depth, at equal loss."""
    panels = {
        "effective rank of the product": measured(frame, "linear-product", "rank"),
        **read_beside(frame),
    }
    layers = polars.format("depth {}", polars.col("widths").list.len() + 1)
    return along_the_loss(frame, panels, title="Linear networks on images", colour="layers", named=layers)
