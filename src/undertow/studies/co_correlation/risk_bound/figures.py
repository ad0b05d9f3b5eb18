"""Both sides of Theorem 4.1 against r, and the share of the allowance r·S that is left over."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.co_correlation.colours import of_widths
from undertow.studies.co_correlation.outcomes import NAMES
from undertow.studies.co_correlation.risk_bound.claims import both_sides
from undertow.studies.co_correlation.risk_bound.parts import RADII
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.exact_tests import median_interval
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("risk-bound",))


@FIGURES.add("theorem-4-1", "Adversarial risk R_rob(r) and its bound R + r·S(L∘f)")
def sides_by_radius(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Both sides of the inequality against r, after training, each less R: networks differ in R far more."""
    rises = {"R_rob(r) − R, by attack": "adversarial", "r·S, the allowance": "bound"}
    sides = both_sides(frame)
    parts = [
        sides.with_columns(value=polars.col(side) - polars.col("risk"), curve=polars.lit(name))
        for name, side in rises.items()
    ]
    what, up = (
        "Adversarial risk and its bound after training",
        Axis("rise of the mean loss above R", zero=True),
    )
    return _panels(parts, frame, what, Axis(_radius(frame), zero=True), up)


@FIGURES.add("theorem-4-1-gap", "Share of the allowance r·S(L∘f) left over")
def left_over(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The share of the allowance r·S that is left over, against r, before and after training."""
    moments = {"after training": True, "before training": False}
    parts = [
        both_sides(frame, trained=trained).with_columns(value="left", curve=polars.lit(name))
        for name, trained in moments.items()
    ]
    what, across = (
        "Gap = R + r·S − R_rob(r), below 0 the inequality fails",
        Axis(_radius(frame), log=True, ticks=RADII),
    )
    return _panels(parts, frame, what, across, Axis("gap / (r·S)", form="%", zero=True), rules=[0.0])


def _panels(
    parts: list[polars.DataFrame],
    frame: polars.DataFrame,
    what: str,
    across: Axis,
    up: Axis,
    rules: list[float] | None = None,
) -> altair.TopLevelMixin:
    """Median over seeds with its interval, coloured by width, dashed by kind of curve; a panel by activation and q."""
    sides = polars.concat(parts)
    q = sides["q"].unique().sort().to_list()
    # The smallest, the middle and the largest q: as many rows of panels as can be read.
    shown = sides.filter(polars.col("q").is_in({q[0], q[len(q) // 2], q[-1]})).with_columns(
        polars.col("activation").replace(NAMES), q=polars.format("q = {}", "q")
    )
    return LinePlot(
        x="r",
        x_axis=across,
        y=up,
        colour="width",
        legend="width m",
        colours=of_widths(shown["width"].unique()),
        dash="curve",
        column="activation",
        row="q",
        own_y=True,
        rules=rules or [],
        interval=median_interval,
        title=f"{what} ({on_data(frame)})",
        size=(300, 190),
    ).draw(shown)


def _radius(frame: polars.DataFrame) -> str:
    return "radius r, in raw pixels" if "authors" in frame["variant"] else "radius r, of inputs with norm 1"
