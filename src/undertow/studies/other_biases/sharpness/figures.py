"""Sharpness over training with the thresholds it meets, and the loss beside it."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.readings import measured
from undertow.studies.kit.statements import Figures
from undertow.studies.other_biases.beside import read_beside, through_training
from undertow.studies.other_biases.sharpness.claims import over_loss, over_training
from undertow.studies.other_biases.sharpness.parts import BETA
from undertow.theory.edge_of_stability import Momentum

__all__ = ["EDGE", "FIGURES"]

FIGURES = Figures(parts=("edge",))
EDGE = polars.format("2/η = {}", (2 / polars.col("learning_rate")).round(0).cast(polars.Int64))


@FIGURES.add("edge", "Sharpness over training, relative to 2/η", what="Chebyshev's polynomial of degree 4")
@FIGURES.add(
    "edge-chebyshev",
    "The same with one hidden layer, by degree",
    parts=("edge-chebyshev",),
    what="Chebyshev's polynomials, one hidden layer",
)
@FIGURES.add(
    "edge-linear",
    "Sharpness of deep linear networks, relative to 2/η",
    parts=("edge-linear",),
    what="Deep linear networks",
)
def sharpening(frame: polars.DataFrame, what: str) -> altair.TopLevelMixin:
    """Sharpness over 2/η; the dashed line is the edge of stability."""
    table = over_training(frame).sort("learning_rate", descending=True).with_columns(rate=EDGE, value="ratio")
    if "degree" in table.columns:
        table = table.with_columns(degree=polars.format("degree {}", "degree"))
    return LinePlot(
        x="step",
        y=Axis("sharpness / (2/η)", domain=(0.0, 1.5)),
        colour="rate",
        colours=table["rate"].unique(maintain_order=True).to_list(),
        column="degree" if "degree" in table.columns else None,
        rules=[1.0],
        title=f"{what}: rates whose 2/η the flow exceeds stop there",
        size=(300, 200) if "degree" in table.columns else (460, 240),
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
            table = over_training(chosen, beta=BETA, momentum=method)
            edge = polars.format("threshold {}", polars.col("threshold").round(0).cast(polars.Int64))
            tables.append(table.with_columns(method=polars.lit(name), rate=edge, value="ratio"))
    return LinePlot(
        x="step",
        y=Axis("sharpness / threshold", domain=(0.0, 1.5)),
        colour="rate",
        column="method",
        rules=[1.0],
        title=f"Chebyshev's polynomial of degree 4, β = {BETA:g}",
    ).draw(polars.concat(tables))


@FIGURES.add("edge-loss", "Training loss at the edge of stability: falling, not monotonically")
def losses(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The loss of the first seed alone: a mean over seeds would smooth what is to be seen."""
    table = measured(frame, "loss", "mean").filter(polars.col("seed") == polars.col("seed").min())
    table = table.sort("learning_rate", descending=True).with_columns(rate=EDGE)
    return LinePlot(
        x="step",
        y=Axis("training loss", log=True),
        colour="rate",
        colours=table["rate"].unique(maintain_order=True).to_list(),
        title="Chebyshev's polynomial of degree 4",
        size=(460, 240),
    ).draw(table.filter(polars.col("value") > 0))


@FIGURES.add(
    "edge-through", "What else changes on the way to the edge", what="Chebyshev's polynomial of degree 4"
)
@FIGURES.add(
    "edge-images-through",
    "The same of tanh networks on images",
    parts=("edge-images",),
    what="Images, square loss, tanh",
)
@FIGURES.add(
    "edge-cross-entropy",
    "Sharpness under cross-entropy, relative to the loss, and what else changes",
    parts=("edge-cross-entropy",),
    what="Images, cross-entropy",
    relative=True,
)
def beside_the_edge(frame: polars.DataFrame, what: str, relative: bool = False) -> altair.TopLevelMixin:
    """Sharpness over 2/η, or over the loss, above what is read beside it."""
    if "activation" in frame.columns:
        frame = frame.filter(polars.col("activation") == "tanh")
    table = over_training(frame)
    panels = {"sharpness / (2/η)": table.with_columns(value="ratio")}
    if relative:
        panels["sharpness / loss"] = over_loss(frame, table)
    return through_training({**panels, **read_beside(frame)}, title=what, colour="rate", named=EDGE)


@FIGURES.add(
    "edge-images", "Sharpness of networks on images over training, by activation", parts=("edge-images",)
)
def by_activation(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """A panel for each activation; lines at 2/η are what sharpness stops at."""
    table = over_training(frame).sort("learning_rate", descending=True).with_columns(rate=EDGE)
    return LinePlot(
        x="step",
        y=Axis("sharpness", log=True),
        colour="rate",
        colours=table["rate"].unique(maintain_order=True).to_list(),
        column="activation",
        wrap=2,
        rules=sorted({round(2 / each, 3) for each in table["learning_rate"].unique()}),
        title="Images, square loss: dashed lines are 2/η",
        size=(280, 180),
    ).draw(table.filter(polars.col("value") > 0))


@FIGURES.add("edge-batches", "Sharpness under SGD over training, by batch size", parts=("edge-batches",))
def by_batch_size(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Time in steps; the dashed line is 2/η, where the largest batch, all of the data, stops."""
    table = measured(frame, "sharpness", "").filter(polars.col("step") > 0)
    return LinePlot(
        x="step",
        x_axis=Axis("step", log=True),
        y="sharpness",
        colour="batch_size",
        legend="batch size",
        points=True,
        rules=[round(2 / each, 3) for each in table["learning_rate"].unique()],
        title="Images, square loss, SGD",
    ).draw(table)
