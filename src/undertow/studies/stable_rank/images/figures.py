"""Figures 4 to 6: pictures."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.statements import Figures
from undertow.studies.stable_rank.genes.figures import layers_and_scores
from undertow.studies.stable_rank.rank_tables import stable_ranks

__all__ = ["FIGURES"]

FIGURES = Figures()


@FIGURES.add("fig4", "Stable rank and test accuracy, MNIST", parts=("mnist",))
@FIGURES.add("fig4-fashion", "Stable rank and test accuracy, Fashion-MNIST", parts=("fashion-mnist",))
@FIGURES.add("fig5", "Stable rank and test accuracy, CIFAR-10", parts=("cifar10",))
def pictures(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """As the figures of gene expression are drawn."""
    return layers_and_scores(frame)


@FIGURES.add(
    "fig6", "Stable rank over a long training from the smallest start, CIFAR-10", parts=("cifar10-long",)
)
def long(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Fig 6: 2,000 epochs."""
    shown = stable_ranks(frame, by=("seed", "init"))
    return LinePlot(x="epoch", y=Axis("stable rank of W"), colour="init").draw(shown)
