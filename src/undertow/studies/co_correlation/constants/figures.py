"""Robust accuracy against each of the numbers that are said to tell it."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.scatter_plot import ScatterPlot
from undertow.studies.co_correlation.colours import of_widths
from undertow.studies.co_correlation.constants.claims import NUMBERS, learned
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.readings import stacked
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("constants",))


@FIGURES.add("constants", "Robust accuracy against S(f), Lipschitz constants and the energy of the loss")
def side_by_side(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """A panel for each number, a point for each network."""
    points = stacked(learned(frame), NUMBERS, by=["width", "q", "seed", "robust"])
    return ScatterPlot(
        x="value",
        y="robust",
        x_axis=Axis("the number in the panel's title", log=True),
        y_axis=Axis("robust accuracy", domain=(0.0, 1.0)),
        colour="width",
        colours=of_widths(points["width"]),
        legend="width m",
        column="curve",
        title=f"ReLU networks after training, {on_data(frame)}",
        size=(200, 200),
    ).draw(points)
