"""Figure 1: the stable rank over training, and in its last fifth."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.statements import Figures
from undertow.studies.stable_rank.claims import stable_ranks

__all__ = ["FIGURES"]

FIGURES = Figures()


@FIGURES.add("fig1-left", "Stable rank over training, by init scale", since=0.0)
@FIGURES.add("fig1-right", "Stable rank in the last fifth of training", since=0.8)
def over_training(frame: polars.DataFrame, since: float) -> altair.TopLevelMixin:
    """Fig 1 left: all epochs; right: the last 1000 of 5000."""
    shown = stable_ranks(frame).filter(polars.col("epoch") >= since * polars.col("epoch").max())
    return LinePlot(x="epoch", y="stable rank of W", colour="init", column="activation").draw(shown)
