"""Figures 1a, 1b and 4: one number of every network as a heat map over width and q."""

from __future__ import annotations

from typing import Any

import altair
import polars

from undertow.core.errors import InputError
from undertow.drawing.heat_map import HeatMap
from undertow.studies.co_correlation.outcomes import NAMES, chosen, outcomes
from undertow.studies.co_correlation.setting import EPS
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("grid",))
_SHOWN = {
    "accuracy": "accuracy on test points",
    "end": "co-correlation ϱ after training",
    "robust": f"robust accuracy, L2 attack of ε = {EPS:g} in raw pixels",
    "energy": "Dirichlet energy S(f), per unit of the network's input",
}
_LINEAR: dict[str, Any] = {"activation": "linear"}
_RELU: dict[str, Any] = {"activation": "relu"}
_AFTER = "networks over width and q, after training"


@FIGURES.add("fig-1a", "Robust accuracy of ReLU networks over width and q", **_RELU, value="robust")
@FIGURES.add("fig-1b", "Dirichlet energy S(f) of ReLU networks over width and q", **_RELU, value="energy")
@FIGURES.add("fig-4a", "Accuracy of linear networks over width and q", **_LINEAR, value="accuracy")
@FIGURES.add("fig-4b", f"Co-correlation of linear {_AFTER}", **_LINEAR, value="end")
@FIGURES.add("fig-4c", "Accuracy of ReLU networks over width and q", **_RELU, value="accuracy")
@FIGURES.add("fig-4d", f"Co-correlation of ReLU {_AFTER}", **_RELU, value="end")
def cells(frame: polars.DataFrame, activation: str, value: str) -> altair.TopLevelMixin:
    """One number of every network."""
    table = chosen(outcomes(frame), activation=activation).drop_nulls(value)
    if table.is_empty():
        raise InputError(f"no record of {_SHOWN[value]}")
    return HeatMap(
        x="width",
        y="q",
        value=value,
        x_title="width m",
        title=f"{_SHOWN[value]}; {NAMES[activation]}, {on_data(frame)}",
        domain=None if value == "energy" else (0.0, 1.0),
        beside=[name for name in ("accuracy", "end", "energy") if name != value],
    ).draw(table)
