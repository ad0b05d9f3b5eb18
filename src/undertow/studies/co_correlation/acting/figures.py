"""Fronts: robust against clean accuracy, a point for each strength of each method."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.scatter_plot import ScatterPlot
from undertow.studies.co_correlation.acting.claims import ALLOWED, networks
from undertow.studies.co_correlation.acting.parts import EPS, PLACES, parts_of
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.readings import stacked
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

FIGURES = Figures()
_NAMES = {
    "decay": "weight decay",
    "jacobian": "penalty on ‖J‖_F²",
    "energy": "penalty on S²",
    "collaboration": "penalty on ϱ²",
    "adversary": "adversarial training",
}
_SIDES = {"attacked": "attacked", "certified": "certified"}


def fronts(frame: polars.DataFrame, place: str) -> altair.TopLevelMixin:
    """Means over seeds; the dashed line is what a method may cost, right of it strengths count."""
    table = networks(frame)
    plain = table.filter(polars.col("method") == "decay", polars.col("strength") == 0)
    columns = [polars.col(name).mean() for name in ("clean", *_SIDES)]
    means = table.group_by("method", "strength").agg(columns).sort("method", "strength")
    points = stacked(means, _SIDES, by=["method", "strength", "clean"])
    floor = float(plain["clean"].to_numpy().mean()) - ALLOWED
    ends = [float(value) for value in (points["value"].to_numpy().min(), points["value"].to_numpy().max())]
    line = polars.DataFrame(
        [{"clean": floor, "value": value, "curve": side} for side in _SIDES for value in ends]
    )
    return ScatterPlot(
        x="clean",
        y="value",
        x_axis=Axis("clean accuracy"),
        y_axis=Axis(f"robust accuracy at ε = {EPS[place]:g}"),
        colour="method",
        colours=list(_NAMES.values()),
        column="curve",
        title=f"Ways of training, at several strengths each, {on_data(frame)}; {table['seed'].n_unique()} seeds",
    ).draw(points.with_columns(polars.col("method").replace_strict(_NAMES)), theory=line)


for _where in PLACES:
    FIGURES.add(
        f"acting-{_where}",
        f"Robust against clean accuracy: penalties, weight decay and adversarial training ({_where})",
        parts=parts_of(_where),
        place=_where,
    )(fronts)
