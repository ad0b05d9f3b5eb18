"""Cosines of neurons with sums of features, and the rise of co-correlation, rule by rule."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.heat_map import HeatMap
from undertow.studies.kit.readings import after_training, before_and_after, curves, stacked
from undertow.studies.kit.statements import Figures
from undertow.studies.optimisers.features.parts import EVERY_RULE
from undertow.studies.optimisers.margin_tables import with_rules
from undertow.studies.optimisers.rules import RULES, parts_of

__all__ = ["FIGURES"]

_TITLES = polars.col("rule").replace_strict({name: rule.title for name, rule in RULES.items()})
_COSINES = {
    "aligned": "least with Σμ_j",
    "own_mean": "mean with a μ_j",
    "cross_largest": "largest with others'",
}

FIGURES = Figures()


@FIGURES.add("averaging", "Cosines of neurons with features", parts=parts_of("clusters", EVERY_RULE))
def neurons(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """A neuron that averages has cosine 1 with the sum of its class's features and 1/√2 with each of two."""
    table = after_training(with_rules(frame), "feature-cosines").filter(
        polars.col("key").is_in(list(_COSINES))
    )
    shown = table.with_columns(rule=_TITLES, cosine=polars.col("key").replace_strict(_COSINES))
    return HeatMap(
        x="cosine",
        y="rule",
        x_title="",
        y_title="",
        cosines=True,
        title="Neurons and features",
        cell=(120, 30),
    ).draw(shown)


@FIGURES.add("co-correlation", "Co-correlation before and after", parts=parts_of("digits", EVERY_RULE))
def rise(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Before, after and the difference."""
    course = curves(with_rules(frame), "collaboration", "activation:co_correlation", by=["rule", "seed"])
    ends = before_and_after(course, by=["rule", "seed"]).with_columns(rule=_TITLES)
    names = {"start": "before", "end": "after", "rise": "rise"}
    return HeatMap(
        x="curve",
        y="rule",
        x_title="",
        y_title="",
        order=list(names.values()),
        title="Co-correlation",
        cell=(90, 30),
    ).draw(stacked(ends, names, by=["rule", "seed"]))
