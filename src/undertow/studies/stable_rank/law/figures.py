"""The law beside what was measured, and radii beside ranks."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.scatter_plot import ScatterPlot
from undertow.studies.kit.statements import Figures
from undertow.studies.stable_rank.law.claims import arms, laws, predictions
from undertow.studies.stable_rank.orthogonality.figures import COSINES_ACROSS, zero_at_the_left
from undertow.studies.stable_rank.rank_tables import by_start

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("law",))


@FIGURES.add(
    "law", "Stable rank at the end beside what the start's activation pattern predicts, orthogonal points"
)
def law(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """On the dashed line the prediction is exact."""
    table = laws(frame)
    ends = table["predicted"].min(), table["predicted"].max()
    line = polars.DataFrame({"predicted": ends, "end": ends})
    return ScatterPlot(
        x="predicted",
        y="end",
        x_axis=Axis("predicted by the start's pattern"),
        y_axis=Axis("stable rank at a loss of 10⁻¹⁰"),
        colour="slope",
        legend="slope",
        title="a point for every network; dashed: as predicted",
    ).draw(table, theory=line)


@FIGURES.add(
    "law-of-mixture",
    "Stable rank at rest beside what the start's activation pattern predicts, the report's mixture (fixed head)",
    parts=("rest",),
)
def law_of_mixture(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """On the dashed line the prediction is exact; a point for each network, by the scale of its start."""
    table = predictions(by_start(frame), ["activation", "seed", "init"])
    ends = table["predicted"].min(), table["predicted"].max()
    return ScatterPlot(
        x="predicted",
        y="end",
        x_axis=Axis("predicted by the start's pattern"),
        y_axis=Axis("stable rank at rest"),
        colour="init",
        legend="init",
        shape="activation",
        title="a point for every network; dashed: as predicted",
    ).draw(table, theory=polars.DataFrame({"predicted": ends, "end": ends}))


@FIGURES.add(
    "law-by-cosine",
    "How wrong the prediction is, from orthogonal points to one direction",
    parts=("cosines",),
)
def by_cosine(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Cosines on a logarithmic axis, 0 at its left end."""
    table = predictions(by_start(frame), ["cosine", "d", "seed", "init"]).rename({"off": "value"})
    shown = zero_at_the_left(table.filter(polars.col("d") == polars.col("d").max()))
    return LinePlot(
        x="cosine", x_axis=COSINES_ACROSS, y="|stable rank/prediction − 1|", colour="init", points=True
    ).draw(shown)


@FIGURES.add(
    "rank-and-radius",
    "Exact radius beside stable rank, by slope and start, at a loss of 10⁻¹⁰",
    parts=("intervention",),
)
def radius_by_rank(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Slopes by colour, starts by shape; the radius in units of the points' norm."""
    return ScatterPlot(
        x="rank",
        y="mean",
        x_axis=Axis("stable rank of W"),
        y_axis=Axis("mean exact radius / ‖x‖"),
        colour="slope",
        legend="slope",
        shape="start",
        title="a point for every network",
        column="width",
    ).draw(arms(frame, every_width=True).with_columns(width=polars.format("{} neurons", "width")))
