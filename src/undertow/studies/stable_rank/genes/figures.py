"""Figures 2 and 3: gene expression."""

from __future__ import annotations

from typing import Any

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.statements import Figures
from undertow.studies.stable_rank.rank_tables import by_start

__all__ = ["FIGURES", "layers_and_scores", "without_headings"]

FIGURES = Figures()
_RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_STEPS = (1, 10, 100, 1000, 10_000, 100_000)


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
    """Both layers' stable ranks, below them test accuracy and loss; a column per activation, where there are several.

    Over epochs; where readings are closer than epochs, over steps on a logarithmic axis, which has no place for step 0.
    """
    rows = by_start(frame)
    time = Axis("epoch", domain=(0.0, rows["epoch"].max()))  # type: ignore[arg-type]
    if rows["step"].n_unique() > rows["epoch"].n_unique():
        time, rows = Axis("step", log=True, ticks=_STEPS), rows.filter(polars.col("step") > 0)
    panels: altair.TopLevelMixin = altair.vconcat(
        _panels(rows, "stable-rank", "hidden.weight", time, Axis("stable rank of W", log=True, ticks=_RANKS)),
        without_headings(_panels(rows, "stable-rank", "output.weight", time, Axis("of the head"))),
        # Before the first step both layers' outputs are equal, and a tie is no right answer: 0 says nothing.
        without_headings(
            _panels(rows.filter(polars.col("step") > 0), "accuracy", "", time, Axis("test accuracy"))
        ),
        without_headings(_panels(rows, "loss", "mean", time, Axis("test loss"))),
        spacing=4,
    )
    return panels


def _panels(rows: polars.DataFrame, measure: str, key: str, time: Axis, up: Axis) -> Any:
    shown = rows.filter(polars.col("measure") == measure, polars.col("key") == key)
    column = "activation" if "activation" in shown.columns else None
    if column:
        shown = shown.sort(column, descending=True, maintain_order=True)  # ReLU first, as in the report
    plot = LinePlot(
        x=str(time.title), x_axis=time, y=up, colour="init", column=column, size=(300 if column else 420, 130)
    )
    return plot.draw(shown)


def without_headings(panels: Any) -> Any:
    """The same below others, whose title and names of columns are its own."""
    panels.title = altair.Undefined
    if isinstance(panels, altair.FacetChart):
        panels.facet.column.header = None
    return panels
