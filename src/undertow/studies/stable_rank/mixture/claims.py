"""Figure 1: whether the stable rank falls, how far, in which order of the starts, and where it stays."""

from __future__ import annotations

from typing import Any

import polars

from undertow.studies.kit.claim import Finding
from undertow.studies.kit.per_seed import per_seed, verdict
from undertow.studies.kit.readings import before_and_after, curves
from undertow.studies.kit.statements import Claims, PublishedNumbers
from undertow.studies.stable_rank.rank_tables import SOURCE, ends, judged_order

__all__ = ["CLAIMS", "PUBLISHED"]

CLAIMS = Claims(SOURCE, figure="fig1-right")
PUBLISHED = PublishedNumbers(SOURCE)
_LEFT: dict[str, Any] = {"figure": "fig1-left"}
_FIXED_LEFT: dict[str, Any] = {"parts": ("fixed-head",), "figure": "fig1-fixed-left"}
_FIXED_RIGHT: dict[str, Any] = {"parts": ("fixed-head",), "figure": "fig1-fixed-right"}
_FALLS = "On mixture data the stable rank falls, whatever the scale of the start"


@CLAIMS.add("R-a.falls", f"{_FALLS} (ReLU).", "Fig 1 left", **_LEFT, activation="relu")
@CLAIMS.add("R-a.falls-leaky", f"{_FALLS} (leaky ReLU).", "Fig 1 left", **_LEFT, activation="leaky-relu")
@CLAIMS.add(
    "R-a.fixed-falls", f"{_FALLS} (fixed head, ReLU).", "Fig 1 left", **_FIXED_LEFT, activation="relu"
)
@CLAIMS.add(
    "R-a.fixed-falls-leaky",
    f"{_FALLS} (fixed head, leaky ReLU).",
    "Fig 1 left",
    **_FIXED_LEFT,
    activation="leaky-relu",
)
def falls(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the largest ratio of final to initial stable rank over the five inits, against 1."""
    ratio = ends(frame, activation).with_columns(value=polars.col("end") / polars.col("start"))
    note = "effect: final/initial stable rank, largest of the inits"
    return verdict(ratio, over="max", below=1.0, note=note)


_ORDER, _PLACE = (
    "The final stable rank follows the order of the init scales",
    "Fig 1 right and Interesting Findings",
)


@CLAIMS.add("R-a.order", f"{_ORDER} (ReLU).", _PLACE, activation="relu")
@CLAIMS.add("R-a.order-leaky", f"{_ORDER} (leaky ReLU).", _PLACE, activation="leaky-relu")
@CLAIMS.add("R-a.fixed-order", f"{_ORDER} (fixed head, ReLU).", _PLACE, **_FIXED_RIGHT, activation="relu")
@CLAIMS.add(
    "R-a.fixed-order-leaky",
    f"{_ORDER} (fixed head, leaky ReLU).",
    _PLACE,
    **_FIXED_RIGHT,
    activation="leaky-relu",
)
def order(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the Spearman correlation of final stable rank and init scale, against 0."""
    return judged_order(frame, activation)


_FLAT = "The last 1,000 of 5,000 epochs are flat"
_RELU_SEEN = "the same claim had been judged with ReLU"


@CLAIMS.add("R-a.right", f"{_FLAT} (ReLU).", "Fig 1 right", activation="relu")
@CLAIMS.add(
    "R-a.right-leaky", f"{_FLAT} (leaky ReLU).", "Fig 1 right", hindsight=_RELU_SEEN, activation="leaky-relu"
)
@CLAIMS.add(
    "R-a.fixed-right", f"{_FLAT} (fixed head, ReLU).", "Fig 1 right", **_FIXED_RIGHT, activation="relu"
)
@CLAIMS.add(
    "R-a.fixed-right-leaky",
    f"{_FLAT} (fixed head, leaky ReLU).",
    "Fig 1 right",
    **_FIXED_RIGHT,
    hindsight=_RELU_SEEN,
    activation="leaky-relu",
)
def flat(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the largest relative change over the last fifth of training of the five inits, against 1 %."""
    change = ends(frame, activation).with_columns(value=(polars.col("end") / polars.col("late") - 1).abs())
    return verdict(
        change, over="max", below=0.01, note="effect: relative change in the last fifth, largest of the inits"
    )


@CLAIMS.add(
    "R-m.beside",
    "Frei et al.'s start ends at a higher stable rank than the Gaussian starts, whose scales are smaller.",
    "High-Dimensional Nearly-Orthogonal Data",
    parts=("glorot", "fixed-head"),
    figure="glorot",
)
def beside_gaussian(frame: polars.DataFrame) -> Finding:
    """Per seed the difference to the highest of the five Gaussian starts, against 0."""
    of_part = polars.col("part") == "glorot"
    highest = ends(frame.filter(~of_part), "leaky-relu").group_by("seed").agg(polars.col("end").max())
    both = _glorot(frame.filter(of_part)).join(highest, on="seed", suffix="_gaussian")
    difference = both.with_columns(value=polars.col("end") - polars.col("end_gaussian"))
    return verdict(
        difference, above=0.0, note="effect: stable rank above that of the highest of five Gaussian starts"
    )


def _glorot(frame: polars.DataFrame) -> polars.DataFrame:
    what = "the stable rank from Frei et al.'s start"
    return before_and_after(
        curves(frame, "stable-rank", "hidden.weight", by=["seed"], what=what), by=["seed"]
    )


for head, parts in (("trained head", ("main",)), ("fixed head", ("fixed-head",))):
    PUBLISHED.add(
        f"stable rank after training (ReLU, {head}, mean over the starts)",
        "about 2 to 3",
        "the curves of Fig 1 right",
        parts=parts,
    )(lambda frame: per_seed(ends(frame, "relu"), "end"))
