"""Runs that come to rest, over decades of the loss."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.readings import curves, stacked
from undertow.studies.kit.statements import Figures
from undertow.studies.stable_rank.rank_tables import by_start, stable_ranks
from undertow.studies.stable_rank.rest.claims import proof_readings

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("rest",))
_DECADES = Axis("−log₁₀ of the loss", log=True)
_SHOWN = {
    "spread": "q_max − q_min",
    "least": "smallest λ, in units of its bound",
    "excess": "(‖W‖_F² − 2‖W‖₂²)/‖W‖_F²",
}


@FIGURES.add("rest-rank", "Stable rank until it rests, from the smallest and the largest start")
def rank_by_loss(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Limits are what the curves end at, with lines at 1 and 2."""
    network = ("activation", "seed", "init")
    ranks = stable_ranks(frame, by=network, time="step").rename({"value": "rank"})
    both = _by_decade(proof_readings(frame).join(ranks, on=[*network, "step"]))
    shown = both.filter(polars.col("decade") > 0).rename({"rank": "value"})
    shown = shown.sort("activation", descending=True, maintain_order=True)
    return LinePlot(
        x="decade",
        x_axis=_DECADES,
        y="stable rank of W",
        colour="init",
        column="activation",
        rules=(1.0, 2.0),
    ).draw(shown)


@FIGURES.add(
    "rest-trained-rank",
    "Stable rank until it rests, with the head trained, from five starts",
    parts=("rest-trained",),
)
def trained_by_loss(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The same with two outputs, whose loss the steps tell."""
    return _by_steps(by_start(frame))


@FIGURES.add(
    "rest-glorot-rank",
    "Stable rank until it rests, from Frei et al.'s Glorot-uniform start (fixed head)",
    parts=("rest-glorot",),
)
def glorot_by_loss(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """One start and one activation."""
    return _by_steps(frame.with_columns(activation=polars.lit("leaky-relu"), init=polars.lit("Glorot")))


@FIGURES.add("proof", "Margins, multipliers and the inequality until the rank rests (ReLU)")
def conditions(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """What the proof wants: a bounded spread, multipliers above 1 (and 0), an excess that is not positive."""
    table = _by_decade(proof_readings(frame, "relu")).filter(polars.col("decade") > 0)
    shown = stacked(table, _SHOWN, by=("seed", "init", "decade")).drop_nulls("value")
    return LinePlot(
        x="decade",
        x_axis=_DECADES,
        y=Axis("value"),
        colour="init",
        column="curve",
        own_y=True,
        rules=(0.0,),
        size=(260, 220),
    ).draw(shown)


def _by_steps(rows: polars.DataFrame) -> altair.TopLevelMixin:
    """Stable ranks over decades of the loss, on a logarithmic axis, with lines at 1 and 2."""
    network = ("activation", "seed", "init")
    ranks = curves(rows, "stable-rank", "hidden.weight", by=network, time="step")
    losses = curves(rows, "steps", "log10_loss", by=network, time="step").rename({"value": "log10_loss"})
    shown = _by_decade(ranks.join(losses, on=[*network, "step"])).filter(polars.col("decade") > 0)
    shown = shown.sort("activation", descending=True, maintain_order=True)
    up = Axis("stable rank of W", log=True)
    return LinePlot(
        x="decade", x_axis=_DECADES, y=up, colour="init", column="activation", rules=(1.0, 2.0)
    ).draw(shown)


def _by_decade(table: polars.DataFrame) -> polars.DataFrame:
    """Networks at the decade that they have just passed; what was measured between two is at the first."""
    decade = (-polars.col("log10_loss")).floor().cast(polars.Int64)
    return table.with_columns(decade=decade).unique(
        ["activation", "seed", "init", "decade"], keep="first", maintain_order=True
    )
