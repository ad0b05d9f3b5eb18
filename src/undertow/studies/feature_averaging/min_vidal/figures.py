"""Distances to both targets against the noise, and robust accuracy against the radius."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.feature_averaging.min_vidal.claims import SMALL, distances
from undertow.studies.kit.readings import after_training
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

_TARGETS = {"averaged": "to averaged features, F", "decoupled": "to one feature each, F^(p)"}
_POWER = polars.format("p = {}", polars.col("power").cast(polars.Int64))

FIGURES = Figures(parts=("min-vidal",))


@FIGURES.add("min-vidal", "Distance of pReLU networks to averaged and to decoupled features")
def by_noise(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Distance to either target against the noise, one panel per power."""
    target = polars.col("target").replace_strict(_TARGETS)
    return LinePlot(
        x="sigma",
        x_axis=Axis("noise per coordinate, α/√D", log=True, form=".1~g"),
        y=Axis("inf sup |c f − F| / sup |F|", domain=(0.0, 1.0)),
        colour="target",
        colours=list(_TARGETS.values()),
        column="panel",
        rules=[SMALL],
        points=True,
        title="Distance on the unit sphere, a lower bound",
        size=(260, 190),
    ).draw(distances(frame).with_columns(target, panel=_POWER, value="relative"))


@FIGURES.add("min-vidal-robust", "Robust accuracy of ReLU and pReLU networks")
def robust_by_radius(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Robust accuracy against the radius, for ReLU and for higher powers."""
    tidy = after_training(frame, "robust-accuracy").with_columns(
        kind=_POWER,
        radius=polars.col("key").cast(polars.Float64),
        noise=polars.format("α/√D = {}", polars.col("sigma").round_sig_figs(2)),
    )
    return LinePlot(
        x="radius",
        x_axis=Axis("ε, L2, with centres of norm 1"),
        y="robust accuracy",
        colour="kind",
        column="noise",
        wrap=4 if tidy["noise"].n_unique() <= 4 else 3,
        points=True,
        title="Under APGD",
        size=(260, 190),
    ).draw(tidy.sort("power", "sigma"))
