"""tr H with and without noise on labels; sharpness and radii of networks at equal loss."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.panels import labelled
from undertow.drawing.scatter_plot import ScatterPlot
from undertow.studies.kit.readings import after_training, stacked
from undertow.studies.kit.statements import Figures
from undertow.studies.other_biases.flatness.claims import traces
from undertow.studies.other_biases.sharpness.figures import EDGE

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("edge-radius",))


@FIGURES.add("edge-radius", "Sharpness and attacked radius of networks at equal loss")
def at_equal_loss(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """A point for every network; colours are rates."""
    by = ["seed", "learning_rate"]
    sharp = after_training(frame, "sharpness", "").select(*by, sharpness="value")
    found = after_training(frame, "robustness-profile", "attacked:2").select(*by, radius="value")
    table = sharp.join(found, on=by).sort("learning_rate", descending=True).with_columns(rate=EDGE)
    return ScatterPlot(
        x="sharpness",
        y="radius",
        x_axis=Axis("sharpness after training to one loss", log=True),
        y_axis=Axis("attacked radius, L2"),
        colour="rate",
        title="Networks of one start and several rates, square loss",
    ).draw(table)


@FIGURES.add(
    "label-noise",
    "Trace of the Hessian and loss under SGD, with and without noise on labels",
    parts=("label-noise",),
)
def with_label_noise(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Two panels over training, a line for each standard deviation of the noise."""
    table = traces(frame)
    table = table.with_columns(noise=polars.format("σ = {}", labelled(table["label_noise"])))
    names = {"value": "tr H", "loss": "loss on labels without noise"}
    both = stacked(table, names, by=["noise", "seed", "step"])
    return LinePlot(
        x="step",
        y=Axis("", log=True),
        colour="noise",
        column="curve",
        own_y=True,
        title="SGD on images, square loss",
    ).draw(both.filter(polars.col("value") > 0))
