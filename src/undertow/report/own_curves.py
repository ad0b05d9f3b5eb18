"""Curves for a study of one's own, which brings no figures: one for each measure, over training."""

from __future__ import annotations

from typing import Any

import polars

from undertow.drawing.palette import KINDS, ORDERED
from undertow.measures.bounds import sign_of_bound

__all__ = ["curves_of_measures"]

_PANELS = 6
_COLOURS = 12


def curves_of_measures(frame: polars.DataFrame, axes: list[str]) -> list[tuple[str, str, dict[str, Any]]]:
    """(name, caption, Vega-Lite figure) for each measure: the mean, and a band from the smallest to the largest.

    ``axes`` are the columns of the grid; the first one but the seed that takes several values gives the colours,
    over the others the mean is taken. Keys of bounds whose error nobody knows are shown with their sign.
    """
    figures = []
    axis = _coloured(frame, axes)
    for measure in frame["measure"].unique(maintain_order=True):
        if measure == "spectrum":  # its keys are an axis, not panels: the grid browser draws it
            continue
        rows = frame.filter(polars.col("measure") == measure).filter(polars.col("value").is_finite())
        keys = rows["key"].unique(maintain_order=True).to_list()
        shown = rows.filter(polars.col("key").is_in(keys[:_PANELS]))
        if shown.is_empty():
            continue
        # Epochs are what one thinks in, where there is one measurement in each.
        across = "step" if shown.select("trial", "key", "epoch").is_duplicated().any() else "epoch"
        by = ["key", across, *([axis] if axis else [])]
        value = polars.col("value")
        table = (
            shown.group_by(by, maintain_order=True)
            .agg(mean=value.mean(), low=value.min(), high=value.max(), trials=polars.col("trial").n_unique())
            .sort(by)
        )
        unknown = rows.filter(polars.col("error").is_null())["key"].unique()
        signs = {key: f"{key} ({sign.strip()})" for key in unknown if (sign := sign_of_bound(measure, key))}
        table = table.with_columns(polars.col("key").replace(signs))
        caption = f"{measure} over training" + (f", by {axis}" if axis else "")
        if averaged := [each for each in axes if each != axis and frame[each].n_unique() > 1]:
            caption += f"; mean over {' and '.join(averaged)}, with smallest to largest"
        if len(keys) > _PANELS:
            caption += f"; {_PANELS} of {len(keys)} keys"
        figures.append((measure, caption, _figure(table, measure, across, axis)))
    return figures


def _coloured(frame: polars.DataFrame, axes: list[str]) -> str | None:
    varying = [axis for axis in axes if axis in frame.columns and 1 < frame[axis].n_unique() <= _COLOURS]
    return next((axis for axis in varying if axis != "seed"), varying[0] if varying else None)


def _figure(table: polars.DataFrame, measure: str, across: str, axis: str | None) -> dict[str, Any]:
    encoding: dict[str, Any] = {
        "x": {"field": across, "type": "quantitative", "title": across, "scale": {"nice": False}}
    }
    if axis:
        ordered = table[axis].dtype.is_numeric()
        scale: dict[str, Any] = {"scheme": ORDERED} if ordered else {"range": list(KINDS)}
        kind = "ordinal" if ordered else "nominal"
        legend = {"symbolType": "stroke", "symbolOpacity": 1, "symbolStrokeWidth": 3}
        encoding["color"] = {"field": axis, "type": kind, "scale": scale, "legend": legend}
    vertical = {"type": "quantitative", "title": measure, "scale": {"zero": False}}
    band = {
        "mark": {"type": "area", "opacity": 0.12},
        "encoding": {"y": {"field": "low", **vertical}, "y2": {"field": "high"}},
    }
    line = {
        # What was measured once is a point: a line needs two.
        "mark": {"type": "line", "strokeWidth": 1.6, "point": table[across].n_unique() == 1},
        "encoding": {"y": {"field": "mean", **vertical}},
    }
    panel = {"width": 300, "height": 200, "encoding": encoding, "layer": [band, line]}
    return {
        "data": {"values": table.to_dicts()},
        "facet": {"field": "key", "type": "nominal", "title": None},
        "columns": 3,
        "spec": panel,
        "resolve": {"scale": {"y": "independent"}},
    }
