"""Accuracy of the three classifiers against the radius."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.feature_averaging.li2022.parts import MARGIN
from undertow.studies.kit.readings import after_training
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

_KINDS = {
    "li2022-linear": "linear, trained",
    "li2022-relu": "two-layer ReLU, trained",
    "li2022-nearest": "nearest neighbour, constructed",
}

FIGURES = Figures(parts=("li2022-linear", "li2022-nearest", "li2022-relu"))


@FIGURES.add("li2022", "A fragile linear and a robust classifier of the same data")
def by_radius(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Clean accuracy is that within the radius 0."""
    clean, robust = after_training(frame, "accuracy"), after_training(frame, "robust-accuracy")
    radii = polars.lit(0.0), polars.col("key").cast(polars.Float64)
    kind = polars.col("part").replace_strict(_KINDS)
    tidy = polars.concat(
        table.select("seed", "value", kind=kind, radius=radius)
        for table, radius in zip((clean, robust), radii, strict=True)
    )
    return LinePlot(
        x="radius",
        x_axis=Axis("ε, L2 (vertices are 2 apart or more)"),
        y="accuracy within ε",
        colour="kind",
        colours=list(_KINDS.values()),
        points=True,
        title=f"Vertices with arbitrary labels, linear margin {MARGIN:g}",
        size=(420, 190),
    ).draw(tidy)
