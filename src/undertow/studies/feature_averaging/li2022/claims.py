"""F-s: a linear classifier is perfect and fragile, and on the same data a robust classifier exists."""

from __future__ import annotations

import polars

from undertow.studies.feature_averaging.li2022.parts import MARGIN, RADIUS
from undertow.studies.kit.claim import SHARE, Finding
from undertow.studies.kit.per_seed import mean, verdict
from undertow.studies.kit.readings import after_training
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS"]

CLAIMS = Claims(
    "Li et al. 2022 (Why Robust Generalization in Deep Learning is Difficult); Li 2024 talk, lower bound examples",
    figure="li2022",
)


@CLAIMS.add(
    "F-s.linear",
    "A linear classifier has perfect clean and nearly zero robust accuracy.",
    parts=["li2022-linear"],
)
def linear_is_fragile(frame: polars.DataFrame) -> Finding:
    """Per seed the linear classifier's clean accuracy less its robust accuracy at the radius."""
    clean = _accuracy(frame, "li2022-linear").select("seed", clean="value")
    robust = _accuracy(frame, "li2022-linear", "robust-accuracy", str(RADIUS))
    both = robust.select("seed", robust="value").join(clean, on="seed", how="left")
    note = (
        f"effect: accuracy of the linear classifier at ε = 0 less that at ε = {RADIUS:g}; clean "
        f"{mean(both['clean']):.3g}, robust {mean(both['robust']):.3g}; margin γ = {MARGIN:g}"
    )
    lost = both.with_columns(lost=polars.col("clean") - polars.col("robust"))
    return verdict(lost, "lost", above=0.95, note=note)


@CLAIMS.add(
    "F-s.robust",
    "On the same data a robust classifier exists.",
    parts=["li2022-nearest"],
    check="the nearest-neighbour classifier is built, and vertices 2 apart prove it robust within 1",
)
def robust_exists(frame: polars.DataFrame) -> Finding:
    """Per seed the robust accuracy of the nearest-neighbour classifier at the radius.

    An attack alone would prove no robustness; here it confirms what the distance between vertices proves.
    """
    note = (
        f"effect: robust accuracy of the nearest-neighbour classifier at ε = {RADIUS:g}, by attack; proved is 1 at "
        "every ε < 1, as vertices are 2 apart or more"
    )
    robust = _accuracy(frame, "li2022-nearest", "robust-accuracy", str(RADIUS))
    return verdict(robust, above=0.95, within=SHARE, note=note)


def _accuracy(
    frame: polars.DataFrame, part: str, measure: str = "accuracy", key: str = ""
) -> polars.DataFrame:
    return after_training(frame, measure, key).filter(polars.col("part") == part)
