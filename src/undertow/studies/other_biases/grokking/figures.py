"""The jump: accuracies over training, delays by start and decay, and what else changes through it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.panels import labelled
from undertow.studies.kit.exact_tests import median_interval
from undertow.studies.kit.readings import measured
from undertow.studies.kit.statements import Figures
from undertow.studies.other_biases.beside import STEPS, read_beside, through_training
from undertow.studies.other_biases.grokking.claims import FITTED, GENERALISES, HALF, ON_IMAGES, jumps

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("grokking",))


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
    names = {"seen": "seen in training", "unseen": "others"}
    chosen = measured(frame, "late-generalisation").filter(polars.col("key").is_in(list(names)))
    table = chosen.with_columns(curve=polars.col("key").replace_strict(names)).filter(polars.col("step") > 0)
    if in_time:
        rates = polars.col("learning_rate") * polars.col("weight_decay")
        table = table.with_columns(time=polars.col("step") * rates)
    table = _setting(table)
    return LinePlot(
        x="time" if in_time else "step",
        x_axis=Axis("ηλ·steps") if in_time else STEPS,
        y=Axis("accuracy", domain=(0.0, 1.0)),
        colour="curve",
        colours=list(names.values()),
        column="setting",
        wrap=3 if table["setting"].n_unique() == 3 else 2,
        rules=rules,
        interval=median_interval,
        title=what,
        size=(280, 180),
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


_ACCURACY = {"accuracy on the others": ("late-generalisation", "unseen")}
_WEIGHTS = {
    "smallest margin / ∏‖W‖": ("late-generalisation", "margin"),
    "share of power at one frequency": ("late-generalisation", "frequency"),
}
_RADII = {
    "L2 radius": ("robustness-profile", "attacked:2"),
    "L∞ radius": ("robustness-profile", "attacked:inf"),
}


@FIGURES.add(
    "grokking-through",
    "Accuracy, margin, frequencies, and what is read beside them through the jump",
    readings={**_ACCURACY, **_WEIGHTS},
)
@FIGURES.add(
    "grokking-images-through",
    "The same on images",
    parts=("grokking-images",),
    readings=_ACCURACY,
    title="Images, square loss, AdamW",
)
@FIGURES.add(
    "grokking-without-decay-through",
    "The same without weight decay",
    parts=("grokking-without-decay",),
    readings={**_ACCURACY, **_WEIGHTS},
)
@FIGURES.add(
    "grokking-descent-radii",
    "The same under gradient descent, with radii of two attackers",
    parts=("grokking-descent",),
    readings={**_ACCURACY, **_RADII},
)
def through(
    frame: polars.DataFrame, readings: Mapping[str, tuple[str, str]], title: str = "Addition mod p"
) -> altair.TopLevelMixin:
    """A panel for each reading over training."""
    first = {name: measured(frame, *reading) for name, reading in readings.items()}
    panels = {**first, **read_beside(frame), **first}  # a margin over all points rather than over few
    named = {name: _setting(table) for name, table in panels.items()}
    colours = next(iter(named.values()))["setting"].unique(maintain_order=True).to_list()
    return through_training(named, title=title, colour="setting", colours=colours)
