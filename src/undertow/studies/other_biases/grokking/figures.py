"""The jump: accuracies over training, delays by start and decay, and what else changes through it."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.readings import measured
from undertow.studies.kit.statements import Figures
from undertow.studies.other_biases.grokking.claims import FITTED, GENERALISES, jumps

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("grokking",))
_SETTING = polars.format(
    "α = {}, λ = {}", polars.col("gain").round_sig_figs(2), polars.col("weight_decay").round_sig_figs(2)
)
_STEPS = Axis("step", log=True)


@FIGURES.add("grokking", "Accuracy on the pairs seen and on the others over training")
def accuracies(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The two curves of every paper on grokking, a panel for each start and decay."""
    names = {"seen": "pairs seen", "unseen": "other pairs"}
    chosen = measured(frame, "late-generalisation").filter(polars.col("key").is_in(list(names)))
    table = chosen.with_columns(curve=polars.col("key").replace_strict(names), panel=_SETTING)
    return LinePlot(
        x="step",
        x_axis=_STEPS,
        y=Axis("accuracy", domain=(0.0, 1.0)),
        colour="curve",
        colours=list(names.values()),
        column="panel",
        wrap=2,
        rules=[GENERALISES, FITTED],
        title="Addition mod p",
        size=(280, 180),
    ).draw(table.filter(polars.col("step") > 0).sort("weight_decay", "gain"))


@FIGURES.add("grokking-delay", "Steps until other pairs are right, by scale of the start and weight decay")
def by_start(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Delay against α, a line for each λ."""
    table = jumps(frame).with_columns(
        value=polars.col("generalises").fill_null(polars.col("all")).cast(polars.Float64)
    )
    return LinePlot(
        x="gain",
        x_axis=Axis("scale α of the start, W ~ N(0, α²/inputs)", ticks="data", form=".2~f"),
        y=Axis("steps to generalise", log=True),
        colour="weight_decay",
        legend="weight decay λ",
        points=True,
        title="Addition mod p, AdamW",
    ).draw(table)


@FIGURES.add("grokking-through", "Margin, frequencies, stable rank and attacked radius through the jump")
def through(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Four panels over training."""
    readings = {
        "smallest margin seen / ∏‖W‖": ("late-generalisation", "margin"),
        "share of power at one frequency": ("late-generalisation", "frequency"),
        "stable rank of the first layer": ("stable-rank", "hidden1.weight"),
        "attacked radius / half gap": ("attacked-radius", "relative"),
    }
    tables = [
        measured(frame, *reading).select(
            "seed", "step", "gain", "weight_decay", "value", panel=polars.lit(name)
        )
        for name, reading in readings.items()
    ]
    table = polars.concat(tables).with_columns(setting=_SETTING).filter(polars.col("step") > 0)
    return LinePlot(
        x="step",
        x_axis=_STEPS,
        y="",
        colour="setting",
        column="panel",
        wrap=2,
        own_y=True,
        title="Addition mod p",
        size=(280, 180),
    ).draw(table)
