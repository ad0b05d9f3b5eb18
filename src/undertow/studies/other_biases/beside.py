"""A bias and what is read beside it through training, in one figure: energy, ϱ, ranks, margin and radii."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.exact_tests import median_interval
from undertow.studies.kit.readings import measured

__all__ = ["BESIDE", "STEPS", "along_the_loss", "read_beside", "through_training"]

STEPS = Axis("step", log=True)
_PROFILE, _SEAM = "robustness-profile", "collaboration"
BESIDE: Mapping[str, tuple[tuple[str, str], ...]] = {
    "energy": ((_PROFILE, "energy"), (_SEAM, "activation1:energy")),
    "co-correlation ϱ": ((_PROFILE, "co-correlation"), (_SEAM, "activation1:co_correlation")),
    "stable rank of the first layer": (("stable-rank", "hidden1.weight"),),
    "stable rank of the second layer": (("stable-rank", "hidden2.weight"),),
    "smallest margin / ∏‖W‖": ((_PROFILE, "margin"),),
    "attacked L2 radius": ((_PROFILE, "attacked:2"),),
    "proved L2 radius": ((_PROFILE, "certified:2"),),
}
"""Panel → where its numbers are: of a classifier, or of a regression, which has fewer."""


def read_beside(frame: polars.DataFrame) -> dict[str, polars.DataFrame]:
    """Of every panel the records that there are; a first layer of one input has rank 1, and no panel."""
    pair = polars.struct("measure", "key")
    found = {
        name: frame.filter(pair.is_in([{"measure": measure, "key": key} for measure, key in places]))
        for name, places in BESIDE.items()
    }
    return {name: table for name, table in found.items() if table["value"].round(6).n_unique() > 1}


def through_training(
    panels: Mapping[str, polars.DataFrame],
    *,
    title: str,
    colour: str,
    named: polars.Expr | None = None,
    along: str = "step",
    x: Axis = STEPS,
    **looks: Any,
) -> altair.TopLevelMixin:
    """A panel for each table of readings over training, medians as claims are judged; eight to a doubling of steps.

    ``named`` says how colours are called, where the column ``colour`` does not; ``along`` is the horizontal axis.
    """
    name, time = polars.col(colour) if named is None else named, polars.col(along)
    shown = time == time.max().over((8 * time.log(2)).floor()) if x.log else polars.lit(True)
    tables = [
        table.filter(polars.col("step") > 0, shown).select(
            "seed", along, polars.col("value").cast(polars.Float64), panel=polars.lit(panel), **{colour: name}
        )
        for panel, table in panels.items()
    ]
    return LinePlot(
        x=along,
        x_axis=x,
        y="",
        colour=colour,
        column="panel",
        wrap=3,
        own_y=True,
        interval=median_interval,
        title=title,
        size=(220, 150),
        **looks,
    ).draw(polars.concat(tables))


def along_the_loss(
    frame: polars.DataFrame, panels: Mapping[str, polars.DataFrame], **looks: Any
) -> altair.TopLevelMixin:
    """The same of networks read within eight steps after every half decade of the loss: of late ones at equal loss."""
    by, half_decades = ["trial", "step"], (-2 * polars.col("value")).floor() / 2
    passed = measured(frame, "loss", "log10").select(*by, passed=half_decades)
    tables = {name: table.join(passed, on=by) for name, table in panels.items()}
    return through_training(tables, along="passed", x=Axis("−log₁₀ loss", ticks="data"), points=True, **looks)
