"""Lines with their spread over seeds: the one kind of plot that most rows of this study need."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from undertow.drawing.titles import mean_of_seeds, small_title

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["after_training", "lines", "mean"]


def after_training(frame: polars.DataFrame, measure: str) -> polars.DataFrame:
    """The records of a measure at the end of every trial, or an ``InputError`` that says there are none."""
    import polars

    from undertow.core.errors import InputError

    chosen = frame.filter(polars.col("measure") == measure)
    last = chosen.filter(polars.col("step") == polars.col("step").max().over("trial"))
    if last.is_empty():
        raise InputError(f"no record of {measure}")
    return last


def mean(values: polars.Series) -> float:
    """The mean as a number, for sentences.

    >>> import polars
    >>> mean(polars.Series([1.0, 2.0]))
    1.5
    """
    return statistics.fmean(values.drop_nulls().to_list())


def lines(
    tidy: polars.DataFrame,
    *,
    x: str,
    x_title: str,
    y_title: str,
    colour: str,
    order: list[str],
    note: str,
    panel: str | None = None,
    panels: list[str] | None = None,
    log: bool = False,
    rule: float | None = None,
    y_domain: tuple[float, float] | None = None,
    width: int = 260,
    x_format: str | None = None,
) -> altair.TopLevelMixin:
    """Mean of ``value`` over seeds as lines, smallest to largest as bands, one colour for each of ``order``."""
    import altair
    import polars

    from undertow.drawing.palette import KINDS

    by = [name for name in (panel, colour, x) if name]
    value = polars.col("value")
    summary = (
        tidy.group_by(by)
        .agg(
            mean=value.mean(), smallest=value.min(), largest=value.max(), seeds=polars.col("seed").n_unique()
        )
        .sort(by)
    )
    scale = altair.Scale(type="log", nice=False) if log else altair.Scale(zero=False, nice=False)
    legend = altair.Legend(
        labelLimit=260, orient="top", symbolType="stroke", symbolStrokeWidth=3, symbolOpacity=1, columns=3
    )
    ticks = altair.Axis(labelSeparation=8, format=x_format or altair.Undefined)
    base = altair.Chart().encode(
        altair.X(f"{x}:Q", title=x_title, scale=scale, axis=ticks),
        altair.Color(
            f"{colour}:N",
            title=None,
            sort=order,
            scale=altair.Scale(domain=order, range=list(KINDS[: len(order)])),
            legend=legend,
        ),
    )
    limits: Any = altair.Scale(domain=list(y_domain), clamp=True) if y_domain else altair.Undefined
    axis = altair.Y("mean:Q", title=y_title, scale=limits)
    layers: list[Any] = [
        base.mark_area(opacity=0.15).encode(
            altair.Y("smallest:Q", title=y_title, scale=limits), altair.Y2("largest:Q")
        ),
        base.mark_line(strokeWidth=1.8).encode(axis),
        base.mark_point(filled=True, size=22).encode(
            axis, tooltip=[f"{colour}:N", f"{x}:Q", "mean:Q", "smallest:Q", "largest:Q"]
        ),
    ]
    if rule is not None:
        dashed = altair.Chart().mark_rule(color="#888", strokeDash=[4, 3])
        layers.insert(0, dashed.encode(altair.Y(datum=rule, type="quantitative")))
    data = altair.InlineData(values=summary.to_dicts())
    chart: Any = altair.layer(*layers, data=data).properties(width=width, height=190)
    if panel is not None:
        columns = 4 if tidy[panel].n_unique() <= 4 else 3
        chart = chart.facet(altair.Facet(f"{panel}:N", title=None, sort=panels), columns=columns)
    titled: altair.TopLevelMixin = chart.properties(
        title=small_title(f"{note}; {mean_of_seeds(summary['seeds'])}")
    )
    return titled
