"""How linear networks are on slab data as their loss falls."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.statements import Figures
from undertow.studies.margin.early_linear.claims import linearity

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("slab-margin",))


@FIGURES.add("slab-linearity", "How linear a network is on slab data over training")
def over_training(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """R² of the best linear fit of the logit, for every start, as long as all seeds are trained.

    Each stops at its own step when its loss is reached: a mean of those that are left would be one of others.
    """
    seeds = polars.col("seed").n_unique()
    shown = linearity(frame).filter(polars.col("step") > 0).with_columns(value=polars.col("linearity"))
    shown = shown.filter(seeds.over("std", "step") == seeds.over("std"))
    return LinePlot(
        x="step",
        x_axis=Axis("step", log=True),
        y="R² of a linear fit",
        colour="std",
        legend="start σ",
        title="Slab data, training points",
    ).draw(shown)
