"""The one scatter plot: a point for every network, and the lines that a theory draws through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.inline_rows import inline_rows
from undertow.drawing.panels import Looks, in_panels, labelled, looks, order_of, told
from undertow.drawing.titles import small_title

__all__ = ["ScatterPlot"]


@dataclass(frozen=True, kw_only=True)
class ScatterPlot:
    """Points at (x, y), one row of a table each; colours and shapes tell two columns apart.

    Attributes:
        x: The column of the horizontal axis.
        y: The column of the vertical axis.
        x_axis: All about the horizontal axis.
        y_axis: All about the vertical axis.
        colour: The column that colours tell apart.
        title: What is drawn, in one line or in several.
        colours: Colours by label, in the order of the legend; or that order alone; or nothing.
        legend: The title of the legend of colours.
        shape: A second column, which shapes tell apart.
        column: The column whose values have a panel each, side by side.
        own_y: Whether every panel has a vertical axis of its own.
        size: Width and height of a panel.
    """

    x: str
    y: str
    x_axis: Axis
    y_axis: Axis
    colour: str
    title: str | list[str]
    colours: Looks = None
    legend: str | None = None
    shape: str | None = None
    column: str | None = None
    own_y: bool = False
    size: tuple[int, int] = (300, 220)

    def draw(
        self, points: polars.DataFrame, *, theory: polars.DataFrame | None = None
    ) -> altair.TopLevelMixin:
        """The figure of a table; ``theory`` has the same columns x and y (and ``column``), for a dashed line."""
        axes = [
            self.x_axis.channel(altair.X, self.x, points[self.x]),
            self.y_axis.channel(altair.Y, self.y, points[self.y]),
        ]
        labels = {name: labelled(points[name]) for name in (self.colour, self.shape) if name}
        values = points.with_columns(**labels, theory=polars.lit(False)).to_dicts()
        hue = altair.Color(
            f"{self.colour}:N",
            title=self.legend,
            sort=order_of(points[self.colour], self.colours),
            scale=looks(points[self.colour], self.colours),
            legend=altair.Legend(symbolOpacity=1, labelLimit=320),
        )
        shapes = [altair.Shape(f"{self.shape}:N", title=self.shape)] if self.shape else []
        kinds = [f"{name}:N" for name in (self.column, self.colour, self.shape) if name]
        numbers = [altair.Tooltip(f"{name}:Q", format=".4g") for name in (self.x, self.y)]
        layers: list[Any] = [
            altair.Chart()
            .transform_filter("!datum.theory")
            .mark_point(filled=True, size=45)
            .encode(*axes, hue, *shapes, tooltip=[*told(*kinds), *numbers])
        ]
        if theory is not None:
            line = altair.Chart().transform_filter("datum.theory").mark_line(color="#777", strokeDash=[4, 3])
            layers.insert(0, line.encode(*axes))
            values += theory.with_columns(theory=polars.lit(True)).to_dicts()
        chart: Any = altair.layer(*layers, data=inline_rows(values))
        chart.width, chart.height = self.size
        chart = in_panels(chart, points, column=self.column, row=None)
        if self.own_y:
            chart.resolve = altair.Resolve(scale=altair.ScaleResolveMap(y="independent"))
        chart.title = small_title(self.title)
        titled: altair.TopLevelMixin = chart
        return titled
