"""The one line plot: means over seeds as lines, their spread as bands, in one panel or in several."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.inline_rows import inline_rows
from undertow.drawing.panels import Looks, in_panels, labelled, legend_of_strokes, looks, order_of, rule, told
from undertow.drawing.titles import mean_of_seeds, small_title

__all__ = ["LinePlot"]

Interval = Callable[[Sequence[float]], tuple[float, float, float] | None]


@dataclass(frozen=True, kw_only=True)
class LinePlot:
    """Lines over x, one colour for each value of a column, from a table with columns ``value`` and ``seed``.

    Attributes:
        x: The column of the horizontal axis.
        y: The title of the vertical axis, or all about it.
        colour: The column that colours tell apart.
        title: What is drawn, before the sentence about seeds, which stands in a line of its own where there are two.
        x_axis: All about the horizontal axis, where the column's name does not say enough.
        colours: Colours by label, in the order of the legend; or that order alone; or nothing, and numbers are shades
            from small to large, words distinct.
        legend: The title of the legend; a column of words needs none.
        dash: A second column, which dashes tell apart; it may be the same as ``colour``.
        dashes: Dashes by label, or the order alone.
        column: The column whose values have a panel each, side by side, in the order of the table's rows.
        row: The same, one below the other.
        wrap: How many panels stand side by side before a new line begins.
        own_y: Whether every panel has a vertical axis of its own.
        rules: Horizontal lines to compare with.
        points: Whether points show where the values are.
        interval: Of the median, as ``median_interval``: then lines are medians and bands their intervals. Without
            it lines are means, and bands from the smallest seed to the largest.
        band: Whether the spread over seeds is drawn at all.
        size: Width and height of a panel.
    """

    x: str
    y: str | Axis
    colour: str
    title: str | Sequence[str] = ""
    x_axis: Axis | None = None
    colours: Looks = None
    legend: str | None = None
    dash: str | None = None
    dashes: Looks = None
    column: str | None = None
    row: str | None = None
    wrap: int | None = None
    own_y: bool = False
    rules: Sequence[float] = ()
    points: bool = False
    interval: Interval | None = None
    band: bool = True
    size: tuple[int, int] = (340, 240)

    def draw(self, tidy: polars.DataFrame) -> altair.TopLevelMixin:
        """The figure of a table: one row per network and x."""
        summary = self._over_seeds(tidy)
        up = Axis(self.y) if isinstance(self.y, str) else self.y
        base = altair.Chart().encode(self._horizontal(tidy), self._hue(tidy))

        def vertical(end: str) -> Any:
            return up.channel(altair.Y, end, tidy["value"].cast(polars.Float64))

        apart = [altair.Detail(f"{self.dash}:N")] if self.dash else []
        band = base.mark_area(opacity=0.12).encode(
            vertical("low"), altair.Y2("high:Q"), *apart, tooltip=told(self._kind)
        )
        layers = [
            *map(rule, self.rules),
            *([band] if self.band else []),
            base.mark_line(strokeWidth=1.6).encode(
                vertical("mean"), *self._dashed(tidy), tooltip=told(self._kind)
            ),
            # Seen or not, a point at every value is what a pointer finds.
            base.mark_point(size=30, filled=True, opacity=1.0 if self.points else 0.0).encode(
                vertical("mean"), tooltip=self._told(summary)
            ),
        ]
        # Inline data: the figure's file carries all it shows.
        chart: Any = altair.layer(*layers, data=inline_rows(summary.to_dicts()))
        chart.width, chart.height = self.size
        chart = in_panels(chart, tidy, column=self.column, row=self.row, wrap=self.wrap)
        if self.own_y:
            chart = chart.resolve_scale(y="independent")
        chart.title = small_title(self._text(summary["seeds"].to_list()))
        titled: altair.TopLevelMixin = chart
        return titled

    @property
    def _by(self) -> list[str]:
        names = (self.column, self.row, self.colour, self.dash, self.x)
        return list(dict.fromkeys(name for name in names if name))

    @property
    def _kind(self) -> str:
        return f"{self.colour}:N"

    def _over_seeds(self, tidy: polars.DataFrame) -> polars.DataFrame:
        """Mean, smallest and largest of every point, or the median and its interval; labels for what is told apart."""
        value, seeds = polars.col("value"), polars.col("seed").n_unique()
        if self.interval is None:
            ends = {"mean": value.mean(), "low": value.min(), "high": value.max()}
            ordered = tidy.sort(*self._by, "value")  # a sum's last digit is that of its order
            found = ordered.group_by(self._by, maintain_order=True).agg(**ends, seeds=seeds)
        else:
            rows = []
            for names, own in tidy.sort(*self._by, "seed").group_by(self._by, maintain_order=True):
                values = own["value"].to_list()
                low, high, _ = self.interval(values) or (min(values), max(values), 0.0)
                point = dict(zip(self._by, names, strict=True)) | {"mean": statistics.median(values)}
                rows.append({**point, "low": low, "high": high, "seeds": own["seed"].n_unique()})
            found = polars.DataFrame(rows)
        told_apart = {name for name in (self.colour, self.dash) if name}
        return found.with_columns(labelled(found[name]).alias(name) for name in sorted(told_apart))

    def _horizontal(self, tidy: polars.DataFrame) -> altair.X:
        axis = self.x_axis or Axis(self.x)
        ends = Axis(axis.title or self.x, axis.log, axis.ticks, axis.form, axis.domain, axis.zero, tight=True)
        horizontal: altair.X = ends.channel(altair.X, self.x, tidy[self.x])
        return horizontal

    def _hue(self, tidy: polars.DataFrame) -> altair.Color:
        numbers, values = tidy[self.colour].dtype.is_numeric(), tidy[self.colour]
        return altair.Color(
            self.colour,
            type="ordinal" if numbers else "nominal",
            sort=order_of(values, self.colours),
            title=self.legend or (self.colour if numbers else None),
            scale=looks(values, self.colours),
            legend=legend_of_strokes(),
        )

    def _dashed(self, tidy: polars.DataFrame) -> list[altair.StrokeDash]:
        if not self.dash:
            return []
        order = order_of(tidy[self.dash], self.dashes)
        scale: Any = altair.Undefined
        if isinstance(self.dashes, Mapping):
            scale = altair.Scale(domain=order, range=[list(self.dashes[label]) for label in order])
        return [
            altair.StrokeDash(
                f"{self.dash}:N", title=None, sort=order, scale=scale, legend=legend_of_strokes()
            )
        ]

    def _told(self, summary: polars.DataFrame) -> list[Any]:
        kinds = [f"{name}:{'Q' if summary[name].dtype.is_numeric() else 'N'}" for name in self._by]
        middle = "median" if self.interval else "mean"
        ends = {"mean": middle, "low": "low", "high": "high"}
        numbers = [altair.Tooltip(f"{end}:Q", title=name, format=".4g") for end, name in ends.items()]
        return [*told(*kinds), *numbers, *told("seeds:Q")]

    def _text(self, seeds: Sequence[int]) -> str | list[str]:
        spread = mean_of_seeds(seeds, band=self.band)
        if self.interval and min(seeds) > 1:
            coverage = (self.interval([0.0] * min(seeds)) or (0.0, 0.0, 0.0))[2]
            many = mean_of_seeds(seeds, band=False).replace("mean", "median")
            spread = f"{many}, band: its interval, which covers {coverage:.1%}"
        if isinstance(self.title, str):
            return f"{self.title}; {spread}" if self.title else spread
        return [*self.title[:-1], f"{self.title[-1]}; {spread}"]
