"""Which coordinates of slab data a network uses, and how linear it is, over training."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.data_names import written
from undertow.studies.kit.readings import measured
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

_EXCHANGED = {
    "none": "as they are",
    "complex": "slab coordinates exchanged",
    "simple": "linear coordinate exchanged",
}
_LIKENESS = {
    "agree": "agreement with the best linear model",
    "linearity": "R² of the logit's linear fit",
    "accuracy": "accuracy",
    "linear_accuracy": "accuracy of the linear model",
}

FIGURES = Figures()


@FIGURES.add("slabs", "Which coordinates of slab data a network uses", parts=["slabs"])
def features_used(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Accuracy over training with either kind of coordinates exchanged between test points."""
    start = polars.format("start σ = {}", polars.col("std").round_sig_figs(2))
    shown = _over_training(frame, "randomised-features", _EXCHANGED).with_columns(panel=start)
    return LinePlot(
        x="step",
        x_axis=Axis("step", log=True),
        y="test accuracy",
        colour="kind",
        colours=list(_EXCHANGED.values()),
        column="panel",
        points=True,
        title="Slab data",
        size=(260, 190),
    ).draw(shown.sort("std"))


@FIGURES.add("early-linear", "A network beside the best linear model", parts=["early-linear"])
def linear_then_not(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Agreement with the best linear model over training."""
    return LinePlot(
        x="step",
        x_axis=Axis("step", log=True),
        y=Axis("share", domain=(0.75, 1.0)),
        colour="kind",
        colours=list(_LIKENESS.values()),
        points=True,
        title=f"Parity on {written(frame['data_name'])}, test points",
        size=(420, 190),
    ).draw(_over_training(frame, "linear-likeness", _LIKENESS))


def _over_training(frame: polars.DataFrame, measure: str, names: dict[str, str]) -> polars.DataFrame:
    """The readings that have names, after the first step: time is logarithmic."""
    key = polars.col("key")
    shown = measured(frame, measure).filter(polars.col("step") > 0, key.is_in(list(names)))
    return shown.with_columns(kind=key.replace_strict(names))
