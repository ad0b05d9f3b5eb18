"""Usefulness of features with and without an attacker, and clean accuracy after training on relabelled points."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.feature_averaging.useful_features.claims import accuracies
from undertow.studies.feature_averaging.useful_features.parts import SOURCES, STRENGTH
from undertow.studies.kit.readings import measured
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

FIGURES = Figures()
_FEATURES = {"centre": "a cluster's centre", "average": "the average", "neuron": "a trained neuron"}
_POINTS = {"all": "over all points", "own": "given its own cluster"}


@FIGURES.add(
    "useful-features",
    "E[y f] of cluster centres, their average and neurons, by the strength of the attacker",
    parts=["useful-features"],
)
def against_attackers(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """What is left of E[y f], in units of √d: a straight line, since a linear feature loses ε exactly."""
    named = polars.col("key").str.split_exact(":", 2).struct.rename_fields(["feature", "points", "word"])
    table = measured(frame, "useful-features").with_columns(named).unnest("key")
    ends = table.with_columns(
        eps=polars.when(polars.col("word") == "robust").then(STRENGTH).otherwise(0.0),
        feature=polars.col("feature").replace_strict(_FEATURES),
        points=polars.col("points").replace_strict(_POINTS),
    )
    return LinePlot(
        x="eps",
        x_axis=Axis("ε/√d of the attacker"),
        y="E[inf y f(x + δ)]/√d",
        colour="feature",
        colours=list(_FEATURES.values()),
        column="points",
        rules=[0.0],
        points=True,
        title="Features of unit length on D_binary",
        size=(240, 190),
    ).draw(ends.sort("points"))


def clean_after_relabelling(frame: polars.DataFrame, source: str) -> altair.TopLevelMixin:
    """Clean test accuracy against the radius within which training points were moved toward their new labels."""
    return LinePlot(
        x="eps",
        x_axis=Axis("ε, L2 (0: labels changed, points not)"),
        y="accuracy on clean test points",
        colour="targets",
        points=True,
        title=f"Trained on the adversary's labels alone, {source}",
    ).draw(accuracies(frame))


for _source in SOURCES:
    FIGURES.add(
        f"relabelled-{_source}",
        f"Clean accuracy after training on adversarial points with the adversary's labels ({_source})",
        parts=[f"relabelled-{_source}"],
        source=_source,
    )(clean_after_relabelling)
