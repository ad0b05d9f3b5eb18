"""tr H with and without noise on labels; sharpness and radii of networks at equal loss."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.scatter_plot import ScatterPlot
from undertow.studies.kit.readings import after_training, measured
from undertow.studies.kit.statements import Figures
from undertow.studies.other_biases.beside import along_the_loss, read_beside, through_training
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


@FIGURES.add("edge-radius-through", "Sharpness and what is read beside it on the way to one loss, by rate")
def on_the_way(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Networks at equal loss, at every half decade of it."""
    panels = {"sharpness": measured(frame, "sharpness", ""), **read_beside(frame)}
    what = "Networks of one start and several rates, square loss"
    return along_the_loss(frame, panels, title=what, colour="rate", named=EDGE)


@FIGURES.add(
    "label-noise",
    "Trace of the Hessian, loss and what is read beside them under SGD, with and without noise on labels",
    parts=("label-noise",),
)
def with_label_noise(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """A line for each standard deviation of the noise."""
    table = traces(frame)
    noise = polars.format("σ = {}", polars.col("label_noise").cast(polars.String))
    panels = {
        "tr H": table,
        "log₁₀ loss without noise": table.with_columns(value=polars.col("loss").log10()),
        **read_beside(frame),
    }
    return through_training(panels, title="SGD on images, square loss", colour="noise", named=noise)
