"""The deviation of each of the paper's estimators over training."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.co_correlation.estimators.claims import ESTIMATORS, deviations
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("estimators",))


@FIGURES.add("estimators", "The paper's estimators of ϱ beside exact norms in Eq. 9")
def over_training(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """One line per estimator, one panel per width."""
    table = deviations(frame).sort("width").with_columns(network=polars.format("width {}", "width"))
    return LinePlot(
        x="epoch",
        y=Axis("deviation from ϱ of Eq. 9", form="+.1%", zero=True),
        colour="estimator",
        colours=list(ESTIMATORS.values()),
        column="network",
        points=True,
        title=f"Co-correlation by the paper's estimators, relative to exact norms in Eq. 9; ReLU, {on_data(frame)}",
        size=(300, 220),
    ).draw(table)
