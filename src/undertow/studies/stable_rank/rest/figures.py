"""Runs that come to rest, over decades of the loss."""

from __future__ import annotations

import math

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
_NETWORK = ("activation", "seed", "init")
_PER_FACTOR = 6
_DECADES = Axis("−log₁₀ of the loss", log=True)
_SHOWN = {
    "spread": "q_max − q_min",
    "least": "smallest λ, in units of its bound",
    "excess": "(‖W‖_F² − 2‖W‖₂²)/‖W‖_F²",
}


@FIGURES.add("rest-rank", "Stable rank until it rests, from the smallest and the largest start")
def rank_by_loss(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Limits are what the curves end at, with lines at 1 and 2."""
    ranks = stable_ranks(frame, by=_NETWORK, time="step").rename({"value": "rank"})
    both = _by_decade(proof_readings(frame).join(ranks, on=[*_NETWORK, "step"]))
    shown = both.rename({"rank": "value"}).sort("activation", descending=True, maintain_order=True)
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
    table = _by_decade(proof_readings(frame, "relu"))
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
    ranks = curves(rows, "stable-rank", "hidden.weight", by=_NETWORK, time="step")
    losses = curves(rows, "steps", "log10_loss", by=_NETWORK, time="step").rename({"value": "log10_loss"})
    shown = _by_decade(ranks.join(losses, on=[*_NETWORK, "step"]))
    shown = shown.sort("activation", descending=True, maintain_order=True)
    up = Axis("stable rank of W", log=True)
    return LinePlot(
        x="decade", x_axis=_DECADES, y=up, colour="init", column="activation", rules=(1.0, 2.0)
    ).draw(shown)


def _by_decade(table: polars.DataFrame) -> polars.DataFrame:
    """Every network at the same decades of the loss, six to each factor of ten, as it was read nearest to them.

    Networks are read at their own steps, and so at decades of their own, of which there are no means over seeds.
    """
    decade = polars.col("decade")
    read = table.with_columns(decade=-polars.col("log10_loss")).filter(decade >= 1).sort("decade")
    own = read.group_by(_NETWORK, maintain_order=True).agg(first=decade.min(), last=decade.max())
    if own.is_empty():
        return read
    begin, end = (_PER_FACTOR * math.log10(each) for each in (own["first"].max(), own["last"].min()))  # type: ignore[arg-type]
    places = [10 ** (k / _PER_FACTOR) for k in range(math.floor(begin), math.floor(end) + 1)]
    common = own.select(_NETWORK).join(polars.DataFrame({"decade": places}), how="cross").sort("decade")
    return common.join_asof(read, on="decade", by=list(_NETWORK), strategy="nearest", check_sortedness=False)
