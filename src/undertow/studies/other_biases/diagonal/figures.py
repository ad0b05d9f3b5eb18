"""Both radii of diagonal networks over training, with those of the two ends."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.panels import labelled
from undertow.studies.kit.exact_tests import median_interval
from undertow.studies.kit.readings import stacked
from undertow.studies.kit.statements import Figures
from undertow.studies.other_biases.diagonal.claims import between_ends, change

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("diagonal",))
_CURVES = {"radius": "network", "end2": "largest L2 margin", "end1": "largest L1 margin"}
_SHOWN = 8.0  # times log α/λ: by then the change is over
_NORMS = {"2": "L2 radius", "inf": "L∞ radius"}


@FIGURES.add("diagonal", "Radii in L2 and L∞ through training, beside those of the largest L2 and L1 margins")
def radii(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """A row for each sparsity, a panel for each norm; time in units of log α/λ, at the smallest λ."""
    time, decay, curve = polars.col("progress"), polars.col("weight_decay"), polars.col("curve")
    table = between_ends(frame).filter(time > 0, time <= _SHOWN, decay == decay.min())
    by = ["k", "start", "weight_decay", "seed", "progress"]
    tables = [
        stacked(table, {f"{name}:{norm}": curve for name, curve in _CURVES.items()}, by=by).with_columns(
            panel=polars.format(f"{title}, k = {{}}", polars.col("k"))
        )
        for norm, title in _NORMS.items()
    ]
    both = polars.concat(tables).sort("k", "start", maintain_order=True).rename({"progress": "time"})
    own = polars.format("network, α = {}", labelled(both["start"]))
    both = both.with_columns(curve=polars.when(curve == "network").then(own).otherwise(curve))
    return LinePlot(
        x="time",
        x_axis=Axis("ηλ·steps / log α: the theory's time is 1"),
        y="radius",
        colour="curve",
        colours=sorted(both["curve"].unique().to_list(), key=lambda name: name.startswith("largest")),
        column="panel",
        wrap=2,
        own_y=True,
        title="Diagonal networks",
        size=(280, 180),
    ).draw(both)


@FIGURES.add("diagonal-time", "When the attacker is swapped, by the scale of the start")
def times(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """ηλ·steps at the change against log α, a line for each sparsity, beside the theory's log α."""
    log_start = polars.col("start").log()
    table = change(frame).with_columns(log_start=log_start)
    found = table.with_columns(
        value=polars.col("value") * log_start, curve=polars.format("k = {}", polars.col("k"))
    )
    theory = table.with_columns(value=log_start, curve=polars.lit("theory: log α"))
    both = polars.concat([found, theory]).drop_nulls("value")  # a network that has not changed has no time
    return LinePlot(
        x="log_start",
        x_axis=Axis("log α", ticks="data", form=".2f"),
        y="ηλ·steps at the change",
        colour="curve",
        points=True,
        interval=median_interval,
        title="Diagonal networks",
    ).draw(both)
