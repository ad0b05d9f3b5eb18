"""KKT residuals over training and as a table; radii by rule and attacker."""

from __future__ import annotations

from collections.abc import Callable

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.heat_map import HeatMap
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.readings import stacked
from undertow.studies.kit.statements import Figures
from undertow.studies.optimisers.linear.claims import at_equal_progress
from undertow.studies.optimisers.networks.claims import (
    SMALL,
    at_equal_loss,
    at_equal_misalignment,
    residuals,
)
from undertow.studies.optimisers.networks.parts import DEPTHS, LONG, WITHSTANDING
from undertow.studies.optimisers.rules import ATTACKERS, DECADES, RULES, parts_of

__all__ = ["FIGURES"]

_TITLES = {name: rule.title for name, rule in RULES.items()}
_NORMS = {"total:1": "‖θ‖₁", "total:2": "‖θ‖₂", "total:inf": "‖θ‖_∞", "total:spectral": "spectral"}
_SIDES = ("certified", "exact", "attacked")
_ATTACKERS = {"1": "L1", "2": "L2", "inf": "L∞"}

_RIVALS = tuple(ATTACKERS.values())
_KINDS = {"binary": "linear, two classes", "classes": "linear, four classes", "radii": "two layers"}

FIGURES = Figures()


_BOTH_DEPTHS = tuple(part for kind in DEPTHS for part in parts_of(kind, LONG))


@FIGURES.add("kkt-in-norms", "KKT residual in each rule's own norm", parts=_BOTH_DEPTHS)
def over_steps(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """One line for each rule over logarithmic time, two layers beside three."""
    table = residuals(frame).filter(polars.col("step") > 0).drop_nulls("own_total")
    table = table.sort("kind", descending=True).with_columns(layers=polars.col("kind").replace_strict(DEPTHS))
    titles = polars.col("rule").replace_strict(_TITLES)
    return LinePlot(
        x="step",
        x_axis=Axis("step", log=True, ticks=DECADES),
        y=Axis("1 − ⟨θ, u⟩/(‖θ‖ ‖u‖_*), with slackness", domain=(0.0, 1.0)),
        colour="rule",
        colours=[_TITLES[rule] for rule in LONG],
        column="layers",
        rules=[SMALL],
        title="KKT residual in the rule's own norm",
        size=(330, 220),
    ).draw(table.select("seed", "step", "layers", rule=titles, value="own_total"))


@FIGURES.add("kkt-table", "KKT residuals after training, rule by norm", parts=_BOTH_DEPTHS)
def by_rule_and_norm(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Every rule in every norm."""
    table = residuals(frame)
    last = table.filter(polars.col("step") == polars.col("step").max().over("kind", "rule", "seed"))
    last = last.sort("kind", descending=True).with_columns(layers=polars.col("kind").replace_strict(DEPTHS))
    shown = stacked(last, _NORMS, by=["layers", "rule", "seed"]).drop_nulls()
    return HeatMap(
        x="curve",
        y="rule",
        x_title="norm of the weights",
        y_title="optimiser",
        domain=(0.0, 1.0),
        order=list(_NORMS.values()),
        column="layers",
        title="KKT residual after training",
        cell=(80, 32),
    ).draw(shown.with_columns(rule=polars.col("rule").replace_strict(_TITLES)))


@FIGURES.add(
    "who-protects",
    "Who protects against whom",
    parts=tuple(part for kind in _KINDS for part in parts_of(kind, _RIVALS)),
)
def protection(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Mean exact radii over the best rule's: linear networks at equal progress, two layers at equal misalignment.

    If the optimiser chose the attacker, every diagonal would be 1: sign descent L1, gradient descent L2, coordinate L∞.
    """
    exact = {f"{p}:exact": name for p, name in _ATTACKERS.items()}
    shown = []
    for kind, title in _KINDS.items():
        own = frame.filter(polars.col("part").is_in(parts_of(kind, _RIVALS)))
        if not own.is_empty():
            moment = at_equal_misalignment if kind == "radii" else at_equal_progress
            radii = stacked(moment(own), exact, by=["rule", "seed"])
            shown.append(radii.with_columns(kind=polars.lit(title)))
    table = polars.concat(shown)
    share = polars.col("value") / polars.col("value").max().over("kind", "seed", "curve")
    return HeatMap(
        x="curve",
        y="rule",
        x_title="attacker",
        y_title="optimiser",
        column="kind",
        order=list(_ATTACKERS.values()),
        title="Mean radius over the largest of the three rules'",
        cell=(60, 36),
    ).draw(table.with_columns(value=share, rule=polars.col("rule").replace_strict(_TITLES)))


@FIGURES.add(
    "radii-misaligned",
    "Who withstands whom, at equal misalignment",
    parts=parts_of("radii", WITHSTANDING),
    moment=at_equal_misalignment,
    when="at a KKT residual of 0.5",
)
@FIGURES.add(
    "radii-early",
    "Who withstands whom, stopped early",
    parts=parts_of("radii", WITHSTANDING),
    moment=at_equal_loss,
    when="at a loss of 0.01",
)
def withstood(
    frame: polars.DataFrame, moment: Callable[[polars.DataFrame], polars.DataFrame], when: str
) -> altair.TopLevelMixin:
    """Mean radii over the best rule's: what is certified, exact and attacked."""
    table = moment(frame)
    radii = polars.concat(
        stacked(
            table, {f"{p}:{side}": name for p, name in _ATTACKERS.items()}, by=["rule", "seed"]
        ).with_columns(side=polars.lit(side))
        for side in _SIDES
    )
    share = polars.col("value") / polars.col("value").max().over("seed", "curve", "side")
    return HeatMap(
        x="curve",
        y="rule",
        x_title="attacker",
        y_title="optimiser",
        column="side",
        order=list(_ATTACKERS.values()),
        title=f"Mean radius over the largest of the rules', {when}",
        cell=(60, 34),
    ).draw(radii.with_columns(value=share, rule=polars.col("rule").replace_strict(_TITLES)))
