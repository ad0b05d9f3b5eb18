"""Curves over training, one colour per value of an axis, with the spread over seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair

if TYPE_CHECKING:
    import polars

__all__ = ["curves_by_seed"]


def curves_by_seed(
    tidy: polars.DataFrame, *, x: str, y: str, colour: str, facet: str | None = None
) -> altair.TopLevelMixin:
    """Mean over seeds as lines, smallest to largest as bands; needs columns ``value`` and ``seed``."""
    import polars

    by = [name for name in (facet, colour, x) if name]
    summary = (
        tidy.group_by(by)
        .agg(mean=polars.col("value").mean(), low=polars.col("value").min(), high=polars.col("value").max())
        .sort(by)
        # Five shades of a number need not be a continuous legend: each value is a curve of its own.
        .with_columns(polars.col(colour).map_elements(lambda v: f"{v:g}", return_dtype=polars.String))
    )
    seeds = tidy["seed"].n_unique()
    order = list(dict.fromkeys(f"{value:g}" for value in tidy[colour].unique().sort()))
    hue = altair.Color(
        colour,
        type="ordinal",
        sort=order,
        scale=altair.Scale(scheme="viridis"),
        legend=altair.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3),
    )
    horizontal = altair.X(x, type="quantitative", scale=altair.Scale(zero=False, nice=False))
    # Inline data: the figure's file carries all it shows.
    base = altair.Chart(altair.InlineData(values=summary.to_dicts())).encode(x=horizontal, color=hue)
    band = base.mark_area(opacity=0.12).encode(
        altair.Y("low:Q", title=y, scale=altair.Scale(zero=False)), altair.Y2("high:Q")
    )
    line = base.mark_line(strokeWidth=1.5).encode(altair.Y("mean:Q", title=y))
    layers: Any = altair.layer(band, line).properties(width=340, height=240)
    if facet is None:
        return _titled(layers, seeds)
    return _titled(layers.facet(column=altair.Column(f"{facet}:N", title=None)), seeds)


def _titled(chart: Any, seeds: int) -> altair.TopLevelMixin:
    text = f"mean of {seeds} seeds; band: smallest to largest"
    title = altair.Title(text, anchor="start", fontWeight="normal", fontSize=11)
    titled: altair.TopLevelMixin = chart.properties(title=title)
    return titled
