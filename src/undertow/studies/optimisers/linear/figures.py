"""Margins in every norm under every rule, who withstands whom, and how near weights are to each optimum."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.heat_map import HeatMap
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.readings import after_training, split_key, stacked
from undertow.studies.kit.statements import Figures
from undertow.studies.optimisers.linear.claims import at_equal_progress
from undertow.studies.optimisers.linear.parts import BINARY, CLASSES
from undertow.studies.optimisers.margin_tables import progress, with_rules
from undertow.studies.optimisers.rules import ATTACKERS, DECADES, RULES, parts_of

__all__ = ["FIGURES"]

_NORMS = {"1": "in ‖W‖₁", "2": "in ‖W‖₂", "inf": "in ‖W‖_∞", "spectral": "in the spectral norm"}
_ATTACKERS = {f"{attacker}:exact": f"L{attacker}".replace("inf", "∞") for attacker in ATTACKERS}
_TITLES = {name: rule.title for name, rule in RULES.items()}
_OWN = {name: _NORMS[rule.norm] for name, rule in RULES.items()}
_RIVALS = tuple(ATTACKERS.values())

FIGURES = Figures()


@FIGURES.add(
    "margins-binary", "Margins in each norm, two classes", parts=parts_of("binary", BINARY), rules=BINARY
)
@FIGURES.add(
    "margins-classes", "Margins in each norm, four classes", parts=parts_of("classes", CLASSES), rules=CLASSES
)
def margins_over_time(frame: polars.DataFrame, rules: tuple[str, ...]) -> altair.TopLevelMixin:
    """A matrix of panels, a row for each rule and a column for each norm; 1 is the largest margin there is."""
    norms = {norm: name for norm, name in _NORMS.items() if norm != "spectral" or "spectral" in rules}
    shown = stacked(progress(frame).filter(polars.col("step") > 0), norms, by=["rule", "seed", "step"])
    # Panels stand in the order of the rows; a rule is drawn in its own colour where the norm is its own.
    order = {rule: place for place, rule in enumerate(rules)}
    shown = shown.sort(polars.col("rule").replace_strict(order), maintain_order=True).with_columns(
        own=polars.when(polars.col("rule").replace_strict(_OWN) == polars.col("curve"))
        .then(polars.lit("its own norm"))
        .otherwise(polars.lit("another norm")),
        rule=polars.col("rule").replace_strict(_TITLES),
    )
    return LinePlot(
        x="step",
        x_axis=Axis("step", log=True, ticks=DECADES),
        y=Axis("", domain=(0.0, 1.05)),
        colour="own",
        colours=["its own norm", "another norm"],
        column="curve",
        row="rule",
        rules=[1.0],
        title="Margins q_min/‖W‖ as a share of the largest in that norm",
        size=(150, 70),
    ).draw(shown)


@FIGURES.add("protection-binary", "Who withstands whom, two classes", parts=parts_of("binary", _RIVALS))
@FIGURES.add("protection-classes", "Who withstands whom, four classes", parts=parts_of("classes", _RIVALS))
def protection(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Mean radii against each attacker, relative to the rule that withstands it best, at equal progress."""
    radii = stacked(at_equal_progress(frame), _ATTACKERS, by=["rule", "seed"])
    share = polars.col("value") / polars.col("value").max().over("seed", "curve")
    return HeatMap(
        x="curve",
        y="rule",
        x_title="attacker",
        y_title="optimiser",
        title="Mean radius over the largest of the three, at 90 % of each one's own margin",
        cell=(80, 36),
    ).draw(radii.with_columns(value=share, rule=polars.col("rule").replace_strict(_TITLES)))


@FIGURES.add("cosines-binary", "Directions after training, two classes", parts=parts_of("binary", BINARY))
@FIGURES.add("cosines-classes", "Directions after training, four classes", parts=parts_of("classes", CLASSES))
def cosines(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Cosines of the weights with the optimal direction of each norm; with one row of weights the spectral is L2."""
    found = after_training(with_rules(frame), "linear-optimum").filter(
        polars.col("key").str.starts_with("cosine:")
    )
    several = (polars.col("kind") != "binary") | (polars.col("norm") != "spectral")
    named = split_key(found, ["kind_of", "norm"]).filter(several)
    named = named.with_columns(
        norm=polars.col("norm").replace_strict(_NORMS), rule=polars.col("rule").replace_strict(_TITLES)
    )
    return HeatMap(
        x="norm",
        y="rule",
        x_title="largest margin",
        y_title="optimiser",
        cosines=True,
        order=list(_NORMS.values()),
        title="Cosines of the weights with the direction of the largest margin",
        cell=(90, 30),
    ).draw(named)
