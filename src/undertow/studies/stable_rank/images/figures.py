"""Figures 4 to 6: pictures."""

from __future__ import annotations

import altair
import polars

from undertow.studies.kit.statements import Figures
from undertow.studies.stable_rank.genes.figures import layers_and_scores

__all__ = ["FIGURES"]

FIGURES = Figures()


@FIGURES.add("fig4", "Stable rank and test accuracy, MNIST", parts=("mnist",))
@FIGURES.add("fig4-fashion", "Stable rank and test accuracy, Fashion-MNIST", parts=("fashion-mnist",))
@FIGURES.add("fig5", "Stable rank and test accuracy, CIFAR-10", parts=("cifar10",))
@FIGURES.add(
    "fig6",
    "Stable rank over a long training from the smallest start, CIFAR-10",
    parts=("cifar10-long",),
    so_far=True,
)
def pictures(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """As the figures of gene expression are drawn; Fig 6 is of ReLU alone, as in the report."""
    return layers_and_scores(frame)
