"""Cosines of neurons with sums of features, and what networks on pictures are like, rule by rule."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.heat_map import HeatMap
from undertow.studies.kit.readings import after_training, stacked
from undertow.studies.kit.statements import Figures
from undertow.studies.optimisers.features.claims import NUMBERS, described
from undertow.studies.optimisers.features.parts import EVERY_RULE, PARTS, PICTURES
from undertow.studies.optimisers.margin_tables import with_rules
from undertow.studies.optimisers.rules import RULES, parts_of

__all__ = ["FIGURES"]

_TITLES = polars.col("rule").replace_strict({name: rule.title for name, rule in RULES.items()})
_COSINES = {
    "aligned": "least with Σμ_j",
    "own_mean": "mean with a μ_j",
    "cross_largest": "largest with others'",
}

_SHOWN = {name: title for name, title in NUMBERS.items() if name != "loss"}

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
        x_title="cosine of neurons",
        y_title="optimiser",
        cosines=True,
        order=list(_COSINES.values()),
        title="Neurons and features",
        cell=(120, 30),
    ).draw(shown)


def compared_with_descent(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Co-correlation, energy, stable rank, sharpness and accuracy, each over gradient descent's of the same seed."""
    tall = stacked(described(frame).sort("seed"), _SHOWN, by=["rule", "seed"])
    reference = tall.filter(polars.col("rule") == "gd").select("seed", "curve", reference="value")
    share = polars.col("value") / polars.col("reference")
    shown = tall.join(reference, on=["seed", "curve"]).with_columns(value=share, rule=_TITLES)
    return HeatMap(
        x="curve",
        y="rule",
        x_title="over gradient descent's",
        y_title="optimiser",
        order=list(_SHOWN.values()),
        domain=(0.3, 3.0),
        title="At a training loss of 0.2, each over gradient descent's of the same seed",
        cell=(100, 30),
    ).draw(shown)


for _name, _what in PICTURES.items():
    _rules = tuple(rule for rule in EVERY_RULE if f"{_name}-{rule}" in PARTS)
    FIGURES.add(
        f"pictures-{_name}", f"Networks at equal training loss: {_what}", parts=parts_of(_name, _rules)
    )(compared_with_descent)
