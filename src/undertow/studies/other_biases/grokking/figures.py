"""The jump: accuracies over training, delays by start and decay, and what else changes through it."""

from __future__ import annotations

from collections.abc import Sequence

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.panels import labelled
from undertow.studies.kit.exact_tests import median_interval
from undertow.studies.kit.readings import measured
from undertow.studies.kit.statements import Figures
from undertow.studies.other_biases.grokking.claims import FITTED, GENERALISES, HALF, ON_IMAGES, jumps

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("grokking",))
_STEPS = Axis("step", log=True)
_SIZE = (280, 180)
_SEEN, _OTHERS = "seen in training", "others"


def _setting(table: polars.DataFrame) -> polars.DataFrame:
    """With a column ``setting``, "α = 1.4, λ = 3": what of the two the networks differ in, or both."""
    there = [(name, sign) for name, sign in (("gain", "α"), ("weight_decay", "λ")) if name in table.columns]
    axes = [(name, sign) for name, sign in there if table[name].n_unique() > 1] or there
    words = [polars.format(f"{sign} = {{}}", labelled(table[name].round_sig_figs(2))) for name, sign in axes]
    ordered = [name for name, _ in axes]
    return table.with_columns(setting=polars.concat_str(words, separator=", ")).sort(
        ordered, maintain_order=True
    )


@FIGURES.add(
    "grokking", "Accuracy on the pairs seen and on the others over training", what="Addition mod p, AdamW"
)
@FIGURES.add(
    "grokking-published",
    "The same in the quick setting to the letter, p = 113",
    parts=("grokking-published",),
    what="Addition mod 113, AdamW",
)
@FIGURES.add(
    "grokking-transformer",
    "The same of a transformer",
    parts=("grokking-transformer",),
    what="Addition mod p, a transformer, AdamW",
)
@FIGURES.add(
    "grokking-without-decay",
    "The same without weight decay, steps in units of the loss",
    parts=("grokking-without-decay",),
    what="Addition mod p, two-layer ReLU networks, no decay",
)
@FIGURES.add(
    "grokking-descent",
    "The same of two-layer networks under gradient descent with weight decay, by scale of the start",
    parts=("grokking-descent",),
    what="Addition mod p, two-layer ReLU networks, gradient descent",
    rules=(HALF, GENERALISES, FITTED),
    in_time=True,
)
@FIGURES.add(
    "grokking-images",
    "The same on few images, from eight times the usual start",
    parts=("grokking-images",),
    what="Images, square loss, AdamW",
    rules=(ON_IMAGES, FITTED),
)
def accuracies(
    frame: polars.DataFrame,
    what: str,
    rules: Sequence[float] = (GENERALISES, FITTED),
    in_time: bool = False,
) -> altair.TopLevelMixin:
    """The two curves of every paper on grokking, a panel for each start and decay; medians, as claims are judged."""
    names = {"seen": _SEEN, "unseen": _OTHERS}
    chosen = measured(frame, "late-generalisation").filter(polars.col("key").is_in(list(names)))
    table = chosen.with_columns(curve=polars.col("key").replace_strict(names)).filter(polars.col("step") > 0)
    if in_time:
        rates = polars.col("learning_rate") * polars.col("weight_decay")
        table = table.with_columns(time=polars.col("step") * rates)
    table = _setting(table)
    return LinePlot(
        x="time" if in_time else "step",
        x_axis=Axis("ηλ·steps") if in_time else _STEPS,
        y=Axis("accuracy", domain=(0.0, 1.0)),
        colour="curve",
        colours=list(names.values()),
        column="setting",
        wrap=3 if table["setting"].n_unique() == 3 else 2,
        rules=rules,
        interval=median_interval,
        title=what,
        size=_SIZE,
    ).draw(table)


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


_THROUGH = {
    "smallest margin seen / ∏‖W‖": ("late-generalisation", "margin"),
    "share of power at one frequency": ("late-generalisation", "frequency"),
    "stable rank of the first layer": ("stable-rank", "hidden1.weight"),
    "attacked L2 radius / half gap": ("robustness-profile", "relative:2"),
    "energy": ("robustness-profile", "energy"),
    "co-correlation ϱ": ("robustness-profile", "co-correlation"),
}
_RADII = {
    "L2 radius": ("robustness-profile", "attacked:2"),
    "L∞ radius": ("robustness-profile", "attacked:inf"),
}


@FIGURES.add(
    "grokking-through",
    "Margin, frequencies, rank, radius, energy and ϱ through the jump",
    readings=_THROUGH,
    axis=_STEPS,
)
@FIGURES.add(
    "grokking-descent-radii",
    "Radii of two attackers through the jump, gradient descent",
    parts=("grokking-descent",),
    readings=_RADII,
    axis=Axis("step"),
)
def through(
    frame: polars.DataFrame, readings: dict[str, tuple[str, str]], axis: Axis
) -> altair.TopLevelMixin:
    """A panel for each reading over training."""
    columns = ["seed", "step", "gain", "weight_decay", "value"]
    tables = [
        _setting(measured(frame, *reading).select(*columns, panel=polars.lit(name)))
        for name, reading in readings.items()
    ]
    return LinePlot(
        x="step",
        x_axis=axis,
        y="",
        colour="setting",
        colours=tables[0]["setting"].unique(maintain_order=True).to_list(),
        column="panel",
        wrap=2,
        own_y=True,
        points=not axis.log,  # few readings, far apart
        title="Addition mod p",
        size=_SIZE,
    ).draw(polars.concat(tables).filter(polars.col("step") > 0))
