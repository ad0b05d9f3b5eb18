"""O-i: feature averaging happens under every rule; O-j: co-correlation rises under every rule."""

from __future__ import annotations

import polars

from undertow.studies.kit.claim import CORRELATION, Finding
from undertow.studies.kit.per_seed import mean, verdict
from undertow.studies.kit.readings import after_training, before_and_after, curves, measured
from undertow.studies.kit.statements import Claims
from undertow.studies.optimisers.features.parts import EVERY_RULE
from undertow.studies.optimisers.rules import RULES

__all__ = ["ALIGNED", "CLAIMS"]

ALIGNED = 0.95
"""The line of feature averaging's own claim (F-e)."""

CLAIMS = Claims()


def averages(frame: polars.DataFrame) -> Finding:
    """Per seed the smallest cosine of a neuron with the sum of its class's features, against 0.95."""
    loss = mean(after_training(frame, "loss", "mean")["value"])
    note = (
        "effect: smallest cosine of a neuron with its Σμ_j",
        f"mean cosine with a single μ_j {mean(after_training(frame, 'feature-cosines', 'own_mean')['value']):.2f}",
        f"loss {loss:.2g}",
    )
    aligned = after_training(frame, "feature-cosines", "aligned")
    return verdict(aligned, above=ALIGNED, within=CORRELATION, note=note)


def rises(frame: polars.DataFrame) -> Finding:
    """Per seed the co-correlation after training minus that before, against 0."""
    key = "activation:co_correlation"
    course = before_and_after(curves(frame, "collaboration", key, by=["seed"]), by=["seed"])
    accuracy = mean(
        measured(frame, "accuracy").filter(polars.col("step") == polars.col("step").max())["value"]
    )
    note = f"effect: co-correlation after training minus before; accuracy on these points {accuracy:.2f}"
    return verdict(course, "rise", above=0.0, note=note, within=CORRELATION)


for _rule in EVERY_RULE:
    CLAIMS.add(
        f"O-i.{_rule}",
        f"Features are averaged by {RULES[_rule].title} too.",
        source="Li, Pan, Lyu & Li 2025, for gradient descent",
        parts=(f"clusters-{_rule}",),
        figure="averaging",
    )(averages)
    CLAIMS.add(
        f"O-j.{_rule}",
        f"Co-correlation rises under {RULES[_rule].title} too.",
        source="Wang, Min & Ruan 2024, for gradient descent",
        parts=(f"digits-{_rule}",),
        figure="co-correlation",
    )(rises)
