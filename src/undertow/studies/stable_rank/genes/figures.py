"""Figures 2 and 3: gene expression."""

from __future__ import annotations

from typing import Any

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.statements import Figures
from undertow.studies.stable_rank.rank_tables import by_start

__all__ = ["FIGURES", "layers_and_scores"]

FIGURES = Figures()


@FIGURES.add("fig2", "Stable rank and test accuracy, neuroblastoma", parts=("neuroblastoma",))
@FIGURES.add(
    "fig2-dlbcl", "Stable rank and test accuracy, lymphoma (in place of neuroblastoma)", parts=("dlbcl",)
)
@FIGURES.add("fig2-table", "Stable rank and test accuracy, the table that was given", parts=("table",))
@FIGURES.add("fig3", "Stable rank and test accuracy, autism", parts=("autism",))
def rank_and_test(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Stable ranks of both layers above, accuracy and loss on test points below, a column for each activation."""
    return layers_and_scores(frame)


def layers_and_scores(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Both layers' stable ranks on a logarithmic axis, below them test accuracy and loss; a column per activation."""
    rows = by_start(frame)
    ranks = {
        ("stable-rank", "hidden.weight"): "stable rank of W",
        ("stable-rank", "output.weight"): "of the head",
    }
    scores = {("accuracy", ""): "test accuracy", ("loss", "mean"): "test loss"}
    panels: altair.TopLevelMixin = altair.vconcat(
        _rows(rows, ranks, log=True), _rows(rows, scores, log=False)
    )
    return panels


def _rows(rows: polars.DataFrame, names: dict[tuple[str, str], str], *, log: bool) -> Any:
    chosen = [
        rows.filter(polars.col("measure") == measure, polars.col("key") == key).select(
            "activation", "seed", "init", "epoch", "value", curve=polars.lit(name)
        )
        for (measure, key), name in names.items()
    ]
    axis = Axis("", log=log)
    plot = LinePlot(
        x="epoch", y=axis, colour="init", column="activation", row="curve", own_y=True, size=(300, 130)
    )
    return plot.draw(polars.concat(chosen))
