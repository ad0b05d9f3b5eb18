"""Where Adam turns from the signs to the gradient, and how its margins with single samples go."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.readings import interpolated, stacked
from undertow.studies.kit.statements import Figures
from undertow.studies.optimisers.adam.claims import ways
from undertow.studies.optimisers.adam.parts import EPSILONS
from undertow.studies.optimisers.margin_tables import progress
from undertow.studies.optimisers.rules import DECADES

__all__ = ["FIGURES"]

FIGURES = Figures()
_PLACES = [place / 4 for place in range(-12, 17)]
_COSINES = {"sign": "with −sign ∇L", "gradient": "with −∇L"}
_BATCHES = {
    "single-adam": "Adam, single samples",
    "single-signum": "Signum, single samples",
    "whole-adam": "Adam, whole batches",
}
_NORMS = {"inf": "in L∞", "2": "in L2"}


@FIGURES.add("epsilon", "Where Adam turns from the signs to the gradient", parts=("epsilon-adam",))
def turning(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Cosines of the way made against how far gradients are above ε."""
    table = ways(frame)
    shown = [
        interpolated(table, _PLACES, by=["epsilon", "seed"], x="below", value=key)
        .rename({key: "value"})
        .with_columns(curve=polars.lit(name))
        for key, name in _COSINES.items()
    ]
    names = {epsilon: f"ε = {epsilon:g}" for epsilon in EPSILONS}
    seen = polars.concat(shown).filter(polars.col("value").is_finite()).sort("epsilon", descending=True)
    seen = seen.with_columns(ε=polars.col("epsilon").replace_strict(names, return_dtype=polars.String))
    return LinePlot(
        x="below",
        x_axis=Axis("log₁₀ of max |∂L/∂w|/ε"),
        y="cosine of the way made",
        colour="curve",
        colours=list(_COSINES.values()),
        column="ε",
        title="Adam's way between two readings; training goes from right to left",
        size=(230, 190),
    ).draw(seen)


@FIGURES.add("memory", "Margins by β₂, whole batches", parts=("memory-adam",), batches="Whole batches")
@FIGURES.add(
    "lasting", "Margins by β₂, single samples", parts=("lasting-adam",), batches="Batches of one sample"
)
def by_memories(frame: polars.DataFrame, batches: str) -> altair.TopLevelMixin:
    """Shares of the largest margins over steps, in L∞ and in L2, for several β₂."""
    tables = [
        stacked(progress(own), _NORMS, by=["seed", "step"]).with_columns(beta2=polars.lit(f"β₂ = {beta2:g}"))
        for (beta2,), own in frame.sort("beta2").group_by("beta2", maintain_order=True)
    ]
    return LinePlot(
        x="step",
        x_axis=Axis("step", log=True, ticks=DECADES),
        y=Axis("share of the largest margin", domain=(0.0, 1.02)),
        colour="curve",
        colours=list(_NORMS.values()),
        column="beta2",
        rules=[1.0],
        title=f"Adam. {batches}",
        size=(230, 170),
    ).draw(polars.concat(tables).filter(polars.col("step") > 0))


@FIGURES.add("single", "Margins with single samples", parts=("single-adam", "single-signum", "whole-adam"))
def single_samples(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Shares of the largest margins over steps, Adam beside Signum, and beside Adam with whole batches."""
    late = progress(frame).filter(polars.col("step") > 0).sort("kind", "rule", maintain_order=True)
    names = polars.concat_str("kind", "rule", separator="-").replace_strict(_BATCHES)
    named = late.with_columns(rule=names)
    return LinePlot(
        x="step",
        x_axis=Axis("step", log=True, ticks=DECADES),
        y=Axis("share of the largest margin", domain=(0.0, 1.02)),
        colour="curve",
        colours=list(_NORMS.values()),
        column="rule",
        rules=[1.0],
        title="Points whose coordinates all have one size",
        size=(230, 190),
    ).draw(stacked(named, _NORMS, by=["rule", "seed", "step"]))
