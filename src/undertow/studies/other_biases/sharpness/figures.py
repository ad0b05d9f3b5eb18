"""Sharpness over training with the thresholds it meets, the loss beside it, and radii at equal loss."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.scatter_plot import ScatterPlot
from undertow.studies.kit.readings import after_training, measured
from undertow.studies.kit.statements import Figures
from undertow.studies.other_biases.sharpness.claims import over_training
from undertow.theory.edge_of_stability import Momentum

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("edge",))
_EDGE = polars.format("2/η = {}", (2 / polars.col("learning_rate")).round(0).cast(polars.Int64))


@FIGURES.add("edge", "Sharpness over training, relative to 2/η", what="Chebyshev's polynomial of degree 4")
@FIGURES.add(
    "edge-linear",
    "Sharpness of deep linear networks, relative to 2/η",
    parts=("edge-linear",),
    what="Deep linear networks",
)
def sharpening(frame: polars.DataFrame, what: str) -> altair.TopLevelMixin:
    """Sharpness over 2/η; the dashed line is the edge of stability."""
    table = (
        over_training(frame).sort("learning_rate", descending=True).with_columns(rate=_EDGE, value="ratio")
    )
    return LinePlot(
        x="step",
        y=Axis("sharpness / (2/η)", domain=(0.0, 1.5)),
        colour="rate",
        colours=table["rate"].unique(maintain_order=True).to_list(),
        rules=[1.0],
        title=f"{what}: rates whose 2/η the flow exceeds stop there",
        size=(460, 240),
    ).draw(table)


@FIGURES.add(
    "edge-momentum",
    "Sharpness with momentum, relative to each method's own threshold",
    parts=("edge-heavy-ball", "edge-nesterov"),
)
def with_momentum(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """A panel for each method, its threshold at 1."""
    own: dict[str, tuple[Momentum, str]] = {
        "edge-heavy-ball": ("heavy-ball", "heavy ball, (2+2β)/η"),
        "edge-nesterov": ("nesterov", "Nesterov, (2+2β)/((1+2β)η)"),
    }
    tables = []
    for part, (method, name) in own.items():
        chosen = frame.filter(polars.col("part") == part)
        if not chosen.is_empty():
            table = over_training(chosen, beta=0.9, momentum=method)
            edge = polars.format("threshold {}", polars.col("threshold").round(0).cast(polars.Int64))
            tables.append(table.with_columns(method=polars.lit(name), rate=edge, value="ratio"))
    return LinePlot(
        x="step",
        y=Axis("sharpness / threshold", domain=(0.0, 1.5)),
        colour="rate",
        column="method",
        rules=[1.0],
        title="Chebyshev's polynomial of degree 4, β = 0.9",
    ).draw(polars.concat(tables))


@FIGURES.add("edge-loss", "Training loss at the edge of stability: falling, not monotonically")
def losses(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The loss of the first seed alone: a mean over seeds would smooth what is to be seen."""
    table = measured(frame, "loss", "mean").filter(polars.col("seed") == polars.col("seed").min())
    table = table.sort("learning_rate", descending=True).with_columns(rate=_EDGE)
    return LinePlot(
        x="step",
        y=Axis("training loss", log=True),
        colour="rate",
        colours=table["rate"].unique(maintain_order=True).to_list(),
        title="Chebyshev's polynomial of degree 4",
        size=(460, 240),
    ).draw(table.filter(polars.col("value") > 0))


@FIGURES.add(
    "edge-cross-entropy",
    "Sharpness under cross-entropy, and relative to the loss",
    parts=("edge-cross-entropy",),
)
def under_cross_entropy(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """λ₁ and λ₁/L in two panels."""
    by = ["seed", "learning_rate", "step"]
    loss = measured(frame, "loss", "mean").select(*by, loss="value")
    table = over_training(frame).join(loss, on=by).with_columns(rate=_EDGE)
    relative = table.with_columns(value=polars.col("value") / polars.col("loss"), panel=polars.lit("λ₁/L"))
    both = polars.concat([table.with_columns(panel=polars.lit("sharpness λ₁")), relative])
    return LinePlot(
        x="step", y=Axis("", log=True), colour="rate", column="panel", own_y=True, title="Cross-entropy"
    ).draw(both.filter(polars.col("step") > 0))


@FIGURES.add("edge-radius", "Sharpness and attacked radius of networks at equal loss", parts=("edge-radius",))
def at_equal_loss(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """A point for every network; colours are rates."""
    by = ["seed", "learning_rate"]
    sharp = after_training(frame, "sharpness", "").select(*by, sharpness="value")
    found = after_training(frame, "attacked-radius", "radius").select(*by, radius="value")
    table = sharp.join(found, on=by).sort("learning_rate", descending=True).with_columns(rate=_EDGE)
    return ScatterPlot(
        x="sharpness",
        y="radius",
        x_axis=Axis("sharpness after training to one loss", log=True),
        y_axis=Axis("attacked radius, L2"),
        colour="rate",
        title="Networks of one start and several rates, square loss",
    ).draw(table)
