"""Figure 5: the other factors over training by width."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.line_plot import LinePlot
from undertow.studies.co_correlation.colours import of_widths
from undertow.studies.co_correlation.outcomes import LARGEST, chosen, trajectories
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("grid",))


@FIGURES.add(
    "fig-5a",
    "Relative deviation std/μ of ‖J_head‖·‖J_tail‖ over training by width (q = 0.25)",
    key="relative_std",
    name="std/μ",
)
@FIGURES.add(
    "fig-5b",
    "Linear correlation ρ of ‖J_head‖ and ‖J_tail‖ over training by width (q = 0.25)",
    key="linear_correlation",
    name="linear correlation ρ",
)
def factor(frame: polars.DataFrame, key: str, name: str) -> altair.TopLevelMixin:
    """One of the other factors over epochs, one line per width, q = 0.25."""
    curves = chosen(trajectories(frame, key), LARGEST, activation="relu")
    title, colours = f"ReLU networks, q = 0.25, {on_data(frame)}", of_widths(curves["width"])
    return LinePlot(x="epoch", y=name, colour="width", legend="width m", colours=colours, title=title).draw(
        curves
    )
