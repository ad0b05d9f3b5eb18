"""The co-correlation over training for other activations, and the energy budget of deeper networks."""

from __future__ import annotations

from typing import Any

import altair
import polars

from undertow.drawing.inline_rows import inline_rows
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.palette import ACTIVATIONS, KINDS
from undertow.drawing.panels import in_panels, rule
from undertow.drawing.titles import small_title
from undertow.studies.co_correlation.extensions.claims import budget
from undertow.studies.co_correlation.outcomes import trajectories
from undertow.studies.co_correlation.rise.figures import RHO
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

FIGURES = Figures()
_FACTORS = ["S", "ϱ", "√(1+var/μ²)", "ρ"]


@FIGURES.add(
    "activations",
    "Co-correlation over training for activations with a bounded derivative",
    parts=("activations",),
)
def over_training(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """ϱ over epochs, one line per activation."""
    curves = trajectories(frame, "co_correlation")
    title = f"width {curves['width'][0]}, q = 0.25, {on_data(frame)}"
    return LinePlot(x="epoch", y=RHO, colour="activation", colours=ACTIVATIONS, title=title).draw(curves)


@FIGURES.add("depth-budget", "Energy budget by depth: every factor of S(net)", parts=("depth",))
def by_depth(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """ln of every factor of S(net), before and after training, in the order of the chain."""
    rows = _before_and_after(budget(frame))
    order = rows.select("where", "position").unique().sort("position")["where"].to_list()
    palette = altair.Scale(domain=_FACTORS, range=list(KINDS[:4]))
    moments = ["before", "after"]
    shape = altair.Scale(domain=moments, range=["circle", "triangle-up"])
    filled = altair.Scale(domain=moments, range=[0.0, 1.0])
    tooltip: list[Any] = ["network:N", "where:N", "factor:N", "moment:N"]
    tooltip += [altair.Tooltip(f"{name}:Q", format="+.3f") for name in ("value", "low", "high")]
    base = altair.Chart().encode(
        altair.X("where:N", sort=order, title=None, axis=altair.Axis(labelAngle=-40)),
        altair.Color("factor:N", sort=_FACTORS, scale=palette),
        tooltip=tooltip,
    )
    points = base.mark_point(size=60).encode(
        altair.Y("value:Q", title="ln of the factor; the sum is ln S(net)"),
        altair.Shape("moment:N", sort=moments, title="training", scale=shape),
        altair.FillOpacity("moment:O", scale=filled, legend=None),
        altair.Fill("factor:N", sort=_FACTORS, scale=palette),
    )
    ends = base.mark_rule(strokeWidth=1).encode(
        altair.Y("low:Q"), altair.Y2("high:Q"), altair.Detail("moment:N")
    )
    layers = altair.layer(rule(0.0), ends, points, data=inline_rows(rows.to_dicts()))
    panels = in_panels(layers.properties(width=380, height=240), rows, column="network", row=None)
    seeds = f"mean of {frame['seed'].n_unique()} seeds, line: smallest to largest"
    chart: altair.TopLevelMixin = panels.resolve_scale(x="independent").properties(
        title=small_title(f"Energy budget by depth, {on_data(frame)}; {seeds}")
    )
    return chart


def _before_and_after(table: polars.DataFrame) -> polars.DataFrame:
    """Mean, smallest and largest ln of every factor at both ends of training, with its place in the chain."""
    value, place, epoch = polars.col("value").log(), polars.col("place"), polars.col("epoch")
    module = (
        polars.col("factor") == "S"
    )  # the module before a seam is numbered from 0, the seam itself from 1
    ends = table.filter(epoch.is_in([0, table["epoch"].max()]))
    return (
        ends.group_by("layers", "epoch", "place", "factor")
        .agg(value=value.mean(), low=value.min(), high=value.max())
        .with_columns(
            moment=polars.when(epoch == 0).then(polars.lit("before")).otherwise(polars.lit("after")),
            network=polars.format("{} hidden layers", "layers"),
            where=polars.when(module)
            .then(polars.format("module {}", place + 1))
            .otherwise(polars.format("seam {}", place)),
            position=polars.when(module).then(2 * place).otherwise(2 * place - 1),
        )
        .sort("layers", "position", "factor", "epoch")
    )
