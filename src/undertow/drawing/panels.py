"""What figures share: kinds of things told apart by looks, panels, lines to compare with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair
import polars

from undertow.drawing.palette import KINDS, ORDERED

__all__ = ["in_panels", "labelled", "legend_of_strokes", "looks", "order_of", "rule", "told"]

Looks = Mapping[str, Any] | Sequence[str] | None
"""Looks by label, in the order of the legend; or the labels in order; or nothing, and the column tells."""


def order_of(values: polars.Series, given: Looks = None) -> list[str]:
    """The labels that occur, in the order given; else numbers from small to large, words as they first come.

    >>> order_of(polars.Series([64, 16, 64])), order_of(polars.Series(["b", "a"]))
    (['16', '64'], ['b', 'a'])
    >>> order_of(polars.Series(["b"]), ["a", "b"])
    ['b']
    """
    present = values.unique(maintain_order=True)
    if given is not None:
        there = set(labelled(present).to_list())
        return [label for label in given if label in there]
    ordered = present.sort() if values.dtype.is_numeric() else present
    return list(dict.fromkeys(labelled(ordered).to_list()))


def labelled(values: polars.Series) -> polars.Series:
    """Numbers as they are written in a legend: each value is a kind of its own."""
    if not values.dtype.is_numeric():
        return values.cast(polars.String)
    return values.map_elements(lambda number: f"{number:g}", return_dtype=polars.String)


def looks(values: polars.Series, given: Looks = None) -> altair.Scale:
    """A scale of colours: those given, shades for numbers, the most distinct ones for words."""
    order = order_of(values, given)
    if isinstance(given, Mapping):
        return altair.Scale(domain=order, range=[given[label] for label in order])
    if given is None and values.dtype.is_numeric():
        scheme: Any = altair.SchemeParams(**ORDERED)
        return altair.Scale(domain=order, scheme=scheme)
    every = order if given is None else list(given)  # a thing keeps its colour where others are not there
    return altair.Scale(domain=order, range=[KINDS[every.index(label) % len(KINDS)] for label in order])


def legend_of_strokes(**options: Any) -> altair.Legend:
    """A legend whose symbols are lines, with room for whole phrases."""
    return altair.Legend(
        symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2.5, symbolSize=300, labelLimit=320, **options
    )


def told(*names: str) -> list[altair.Tooltip]:
    """What a pointer is told, as ``"step:Q"``; of a mere word altair makes a channel a hundred times as slowly."""
    return [altair.Tooltip(name) for name in names]


def rule(at: float) -> altair.Chart:
    """A horizontal line to compare with: thin at 0, dashed elsewhere."""
    style: dict[str, Any] = {"strokeDash": [4, 3]} if at else {"strokeWidth": 0.6}
    line: altair.Chart = altair.Chart().mark_rule(color="#888", **style)
    return line.encode(altair.Y(datum=at, type="quantitative"))


def in_panels(
    chart: Any, tidy: polars.DataFrame, *, column: str | None, row: str | None, wrap: int | None = None
) -> Any:
    """The chart once for each value of the columns named, in the order of the rows of ``tidy``.

    With ``wrap`` a new line begins after so many panels side by side. A comma in a value's name breaks the line there.
    """
    header = altair.Header(labelExpr="split(datum.label, ', ')")
    places = {"column": (altair.Column, column), "row": (altair.Row, row)}
    facets = {
        where: kind(
            f"{name}:N", title=None, sort=tidy[name].unique(maintain_order=True).to_list(), header=header
        )
        for where, (kind, name) in places.items()
        if name
    }
    if not facets:
        return chart
    if wrap and column:
        panels = tidy[column].unique(maintain_order=True).to_list()
        lines = chart.facet(altair.Facet(f"{column}:N", title=None, sort=panels, header=header), columns=wrap)
        # Shared axes stand below every column of the last line, also where it has no panel.
        return lines.resolve_axis(x="independent") if len(panels) > wrap and len(panels) % wrap else lines
    return chart.facet(**facets)
