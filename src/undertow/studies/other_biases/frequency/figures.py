"""What is left to learn of every frequency over training, and what noise leaves of it afterwards."""

from __future__ import annotations

import math
from typing import Any

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.heat_map import HeatMap
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.exact_tests import median_interval
from undertow.studies.kit.readings import after_training, measured
from undertow.studies.kit.statements import Figures
from undertow.studies.other_biases.beside import read_beside, through_training
from undertow.studies.other_biases.frequency.claims import LEARNED, of_frequencies

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("frequency",))
_AMPLITUDES = (
    polars.when("growing").then(polars.lit("growing amplitudes")).otherwise(polars.lit("equal amplitudes"))
)


@FIGURES.add("frequency", "Residual of every frequency over training", what="Sum of sines, ReLU networks")
@FIGURES.add(
    "frequency-wide",
    "The same of tanh networks and two frequencies",
    parts=("frequency-wide",),
    what="Two sines on [−10, 10), tanh networks",
)
def over_training(frame: polars.DataFrame, what: str) -> altair.TopLevelMixin:
    """A line for each frequency, a panel for each choice of amplitudes."""
    table = of_frequencies(measured(frame, "frequency-residuals"), "residual")
    table = table if "growing" in table.columns else table.with_columns(growing=False)
    return LinePlot(
        x="step",
        y=Axis("|ŷ(k) − f̂(k)| / |ŷ(k)|", domain=(0.0, 1.2)),
        colour="k",
        legend="frequency k",
        column="amplitudes",
        rules=[LEARNED],
        title=what,
    ).draw(table.with_columns(amplitudes=_AMPLITUDES))


@FIGURES.add("frequency-map", "When every frequency is learned: what is left of it, by step")
def as_map(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """A row for each frequency, a column for each of a dozen steps, as equal as can be in their logarithm."""
    table = of_frequencies(measured(frame, "frequency-residuals"), "residual").filter(polars.col("step") > 0)
    steps = sorted(table["step"].unique().to_list())
    wanted = [steps[0] * (steps[-1] / steps[0]) ** (place / 11) for place in range(12)]
    shown = sorted({min(steps, key=lambda step: abs(math.log(step / each))) for each in wanted})
    return HeatMap(
        x="step",
        y="k",
        y_title="frequency k",
        domain=(0.0, 1.0),
        number=".1f",
        column="amplitudes",
        cell=(34, 24),
        letters=10,
        title="Residual of every frequency",
    ).draw(table.filter(polars.col("step").is_in(shown)).with_columns(amplitudes=_AMPLITUDES))


@FIGURES.add("frequency-through", "Two frequencies and what is read beside them", named=_AMPLITUDES)
@FIGURES.add(
    "frequency-noise",
    "Noise of one frequency on the labels: when it is fitted, and what is read beside it",
    parts=("frequency-noise",),
    named=polars.col("noise_frequency"),
    legend="noise's frequency",
)
def beside_frequencies(frame: polars.DataFrame, named: polars.Expr, **looks: Any) -> altair.TopLevelMixin:
    """The lowest and the highest frequency; of networks with noise on the labels that of the noise, and the loss."""
    residuals, k = of_frequencies(measured(frame, "frequency-residuals"), "residual"), polars.col("k")
    panels = {"residual of the lowest k": residuals.filter(k == k.min())}
    if "noise_frequency" in frame.columns:
        panels["residual of the noise"] = residuals.filter(k == polars.col("noise_frequency"))
        panels["log₁₀ loss on points without noise"] = measured(frame, "loss@test", "log10")
    else:
        panels["residual of the highest k"] = residuals.filter(k == k.max())
    both = {**panels, **read_beside(frame)}
    return through_training(both, title="Sum of sines, ReLU networks", colour="kind", named=named, **looks)


@FIGURES.add("frequency-kept", "Share of every frequency that noise on the weights leaves")
def under_noise(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """After training, against the frequency."""
    table = of_frequencies(after_training(frame, "frequency-residuals"), "kept")
    return LinePlot(
        x="k",
        x_axis=Axis("frequency k", ticks="data"),
        y="share left under noise",
        colour="amplitudes",
        points=True,
        interval=median_interval,
        title="Noise of a tenth of ‖θ‖ on the weights",
    ).draw(table.with_columns(amplitudes=_AMPLITUDES))
