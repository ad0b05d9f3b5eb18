"""Curves over training, one colour per value of an axis, with the spread over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import altair

from undertow.drawing.titles import mean_of_seeds, small_title

if TYPE_CHECKING:
    import polars

__all__ = ["curves_by_seed"]


def curves_by_seed(
    tidy: polars.DataFrame,
    *,
    x: str,
    y: str,
    colour: str,
    facet: str | None = None,
    colours: Mapping[str, str] | None = None,
    domain: tuple[float, float] | None = None,
    title: str = "",
    legend: str | None = None,
    log_x: bool = False,
    points: bool = False,
) -> altair.TopLevelMixin:
    """Mean over seeds as lines, smallest to largest as bands; needs columns ``value`` and ``seed``.

    ``colours`` fixes the colour of each value, by its label; ``domain`` the vertical range; ``points`` shows
    where the values are. ``title`` says what is drawn, before the sentence about seeds.
    """
    import polars

    by = [name for name in (facet, colour, x) if name]
    numbers = tidy[colour].dtype.is_numeric()
    label = polars.col(colour)
    if numbers:  # shades of a number need not be a continuous legend: each value is a curve of its own
        label = label.map_elements(lambda v: f"{v:g}", return_dtype=polars.String)
    summary = (
        tidy.group_by(by)
        .agg(
            mean=polars.col("value").mean(),
            low=polars.col("value").min(),
            high=polars.col("value").max(),
            seeds=polars.col("seed").n_unique(),
        )
        .sort(by)
        .with_columns(label)
    )
    values = tidy[colour].unique().sort().to_list()
    order = list(dict.fromkeys(f"{value:g}" if numbers else str(value) for value in values))
    hue = altair.Color(
        colour,
        type="ordinal",
        sort=order,
        title=legend or colour,
        scale=_scale(order, colours),
        legend=altair.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3),
    )
    horizontal = altair.X(
        x,
        type="quantitative",
        scale=altair.Scale(type="log", base=2, nice=False) if log_x else altair.Scale(zero=False, nice=False),
        # Without commas, and the last one not pushed inward: 4096 and 8192 would run into each other.
        axis=altair.Axis(values=tidy[x].unique().sort().to_list(), format="d", labelFlush=False)
        if log_x
        else _ticks(tidy[x]),
    )
    vertical = altair.Scale(zero=False) if domain is None else altair.Scale(domain=domain, clamp=True)
    shown = [name for name in (facet, colour, x) if name]
    tooltip = [
        *shown,
        *(altair.Tooltip(f"{end}:Q", format=".4g") for end in ("mean", "low", "high")),
        "seeds:Q",
    ]
    # Inline data: the figure's file carries all it shows.
    base = altair.Chart(altair.InlineData(values=summary.to_dicts())).encode(x=horizontal, color=hue)
    band = base.mark_area(opacity=0.12).encode(
        altair.Y("low:Q", title=y, scale=vertical), altair.Y2("high:Q"), tooltip=[f"{colour}:N"]
    )
    line = base.mark_line(strokeWidth=1.5).encode(altair.Y("mean:Q", title=y), tooltip=[f"{colour}:N"])
    # Seen or not, a point at every value is what a pointer finds.
    marks = base.mark_point(size=30, filled=True, opacity=1.0 if points else 0.0).encode(
        altair.Y("mean:Q", title=y), tooltip=_typed(tooltip, summary)
    )
    layers: Any = altair.layer(band, line, marks).properties(width=340, height=240)
    if facet is None:
        return _titled(layers, title, summary["seeds"])
    panels = list(dict.fromkeys(tidy[facet]))
    return _titled(
        layers.facet(column=altair.Column(f"{facet}:N", title=None, sort=panels)), title, summary["seeds"]
    )


def _ticks(values: polars.Series) -> altair.Axis:
    """No tick at half an epoch."""
    return altair.Axis(tickMinStep=1, format="d") if values.dtype.is_integer() else altair.Axis()


def _scale(order: list[str], colours: Mapping[str, str] | None) -> altair.Scale:
    if colours is None:
        return altair.Scale(scheme=altair.SchemeParams("viridis", extent=[0.05, 0.8]))
    return altair.Scale(domain=order, range=[colours[label] for label in order])


def _typed(tooltip: list[Any], summary: polars.DataFrame) -> list[Any]:
    """Bare names of columns with the kind that Vega-Lite asks for."""
    return [
        f"{each}:{'Q' if summary[each].dtype.is_numeric() else 'N'}"
        if isinstance(each, str) and ":" not in each
        else each
        for each in tooltip
    ]


def _titled(chart: Any, what: str, seeds: Iterable[int]) -> altair.TopLevelMixin:
    spread = mean_of_seeds(seeds)
    text = f"{what}; {spread}" if what else spread
    title = small_title(text)
    titled: altair.TopLevelMixin = chart.properties(title=title)
    return titled
