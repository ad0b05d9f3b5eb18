"""Both radii of diagonal networks over training, with those of the two ends."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.readings import stacked
from undertow.studies.kit.statements import Figures
from undertow.studies.other_biases.diagonal.claims import between_ends

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("diagonal",))
_CURVES = {"radius": "network", "end2": "largest L2 margin", "end1": "largest L1 margin"}
_NORMS = {"2": "L2 radius", "inf": "L∞ radius"}


@FIGURES.add("diagonal", "Radii in L2 and L∞ through training, beside those of the largest L2 and L1 margins")
def radii(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """A row for each sparsity, a panel for each norm; time in units of log α/λ."""
    table = between_ends(frame).filter(polars.col("step") > 0)
    by = ["k", "start", "weight_decay", "seed", "progress"]
    tables = [
        stacked(table, {f"{name}:{norm}": curve for name, curve in _CURVES.items()}, by=by).with_columns(
            panel=polars.format(f"{title}, k = {{}}", polars.col("k"))
        )
        for norm, title in _NORMS.items()
    ]
    both = polars.concat(tables).sort("k", maintain_order=True).rename({"progress": "time"})
    return LinePlot(
        x="time",
        x_axis=Axis("ηλ·steps / log α: the theory's time is 1"),
        y="radius",
        colour="curve",
        colours=list(_CURVES.values()),
        column="panel",
        wrap=2,
        own_y=True,
        title="Diagonal networks",
        size=(280, 180),
    ).draw(both)
