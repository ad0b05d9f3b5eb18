"""The KKT conditions over training, and the one move that all points of a class make."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.feature_averaging.kkt.claims import SMALL
from undertow.studies.kit.readings import after_training, measured
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

_CONDITIONS = {
    "residual": "stationarity ‖θ − Σ λ_i ∇q_i‖/‖θ‖",
    "slackness": "weight on margins above the smallest",
    "misalignment": "1 − cos(θ, −∇L)",
}
_MOVED = "trained network, training points"

FIGURES = Figures(parts=("kkt",))


@FIGURES.add("kkt", "Residuals of the KKT conditions over training")
def residuals(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Three conditions over logarithmic time."""
    key = polars.col("key")
    shown = measured(frame, "kkt").filter(polars.col("step") > 0, key.is_in(list(_CONDITIONS)))
    return LinePlot(
        x="step",
        x_axis=Axis("step", log=True),
        y=Axis("residual", domain=(0.0, 1.0)),
        colour="kind",
        colours=list(_CONDITIONS.values()),
        rules=[SMALL],
        points=True,
        title="KKT conditions on the training points",
        size=(420, 190),
    ).draw(shown.with_columns(kind=key.replace_strict(_CONDITIONS)))


@FIGURES.add("kkt-universal", "One perturbation per class flips the network")
def universal(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Accuracy against the length of the one move that all points of a class make."""
    key = polars.col("key")
    moved = after_training(frame, "kkt-network").filter(key.str.starts_with("universal@"))
    length = key.str.strip_prefix("universal@").cast(polars.Float64)
    return LinePlot(
        x="move",
        x_axis=Axis("length of the move, in √(d/k)"),
        y="accuracy on moved points",
        colour="moment",
        points=True,
        title="All points of a class moved alike",
        size=(320, 190),
    ).draw(moved.with_columns(move=length, moment=polars.lit(_MOVED)))
