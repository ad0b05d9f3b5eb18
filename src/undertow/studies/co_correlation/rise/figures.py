"""Figures 1c, 1d and 3: the co-correlation over training by width and by q; Figure 6: its total rise."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.co_correlation.colours import of_q, of_widths
from undertow.studies.co_correlation.outcomes import LARGEST, NAMES, chosen, outcomes, trajectories
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES", "RHO", "fig_3_width"]

FIGURES = Figures(parts=("grid",))
RHO = Axis("co-correlation ϱ", domain=(0.2, 1.0))
"""The vertical axis of ϱ in all figures; random networks of the paper's largest width start at 0.24."""


@FIGURES.add(
    "fig-1c", "Co-correlation over training by width, linear networks (q = 0.25)", activation="linear"
)
@FIGURES.add("fig-1d", "Co-correlation over training by width, ReLU networks (q = 0.25)", activation="relu")
def by_width(frame: polars.DataFrame, activation: str) -> altair.TopLevelMixin:
    """ϱ over epochs, one line per width, q = 0.25."""
    curves = chosen(trajectories(frame, "co_correlation"), LARGEST, activation=activation)
    title, colours = f"{NAMES[activation]}, q = 0.25, {on_data(frame)}", of_widths(curves["width"])
    return LinePlot(x="epoch", y=RHO, colour="width", legend="width m", colours=colours, title=title).draw(
        curves
    )


def fig_3_width(widths: list[int], panel: int) -> int:
    """The width of a panel of Figure 3: the paper's where the grid has all four, else spread over the grid's.

    >>> fig_3_width([16, 32, 512, 2048, 8192], 1), fig_3_width([16, 64, 256, 1024], 1)
    (512, 64)
    """
    printed = (32, 512, 2048, 8192)
    if set(printed) <= set(widths):
        return printed[panel]
    return sorted(widths)[round(panel * (len(widths) - 1) / 3)]


@FIGURES.add("fig-3a", "Co-correlation over training by q, narrowest of four widths", panel=0)
@FIGURES.add("fig-3b", "Co-correlation over training by q, second of four widths", panel=1)
@FIGURES.add("fig-3c", "Co-correlation over training by q, third of four widths", panel=2)
@FIGURES.add("fig-3d", "Co-correlation over training by q, widest of four widths", panel=3)
def by_q(frame: polars.DataFrame, panel: int) -> altair.TopLevelMixin:
    """A panel of Figure 3: ϱ over epochs, one line per q, at one width; linear networks beside ReLU ones."""
    curves = trajectories(frame, "co_correlation")
    width = fig_3_width(curves["width"].unique().to_list(), panel)
    shown = curves.filter(polars.col("width") == width).with_columns(polars.col("activation").replace(NAMES))
    title = f"width {width}, {on_data(frame)}"
    return LinePlot(
        x="epoch", y=RHO, colour="q", colours=of_q(shown["q"]), column="activation", title=title
    ).draw(shown)


@FIGURES.add("fig-6", "Total rise of the co-correlation by width, one line per q")
def total_rise(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Δϱ against the width, one line per q; ReLU networks above, linear ones below."""
    table = outcomes(frame).select(
        "width", "q", "seed", polars.col("activation").replace(NAMES), value="rise"
    )
    shown = table.sort("activation", descending=False, maintain_order=True)  # "ReLU" comes before "linear"
    return LinePlot(
        x="width",
        y="total Δϱ",
        x_axis=Axis("width m", log=True, ticks="data"),
        colour="q",
        colours=of_q(shown["q"]),
        row="activation",
        points=True,
        rules=[0.0],
        title=on_data(frame),
    ).draw(shown)
