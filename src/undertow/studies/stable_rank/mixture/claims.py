"""Figure 1: whether the stable rank falls, how far, in which order of the starts, and where it stays."""

from __future__ import annotations

import math
from typing import Any

import polars

from undertow.studies.kit.claim import Finding, Verdict
from undertow.studies.kit.per_seed import per_seed, verdict
from undertow.studies.kit.readings import before_and_after, curves, measured
from undertow.studies.kit.statements import Claims, PublishedNumbers
from undertow.studies.stable_rank.rank_tables import SOURCE, ends, epoch, judged_order

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
    note = "effect: final/initial stable rank, largest of the five inits"
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


_LIMIT, _KOU = "The stable rank's limit is at most 2", "Fig 1; Kou, Chen & Gu 2023 prove 1"


@CLAIMS.add("R-a.limit", f"{_LIMIT} (ReLU).", "proof idea (limsup ≤ 2)", activation="relu")
@CLAIMS.add("R-a.limit-leaky", f"{_LIMIT} for leaky ReLU as well.", _KOU, activation="leaky-relu")
@CLAIMS.add(
    "R-a.fixed-limit",
    f"{_LIMIT} (fixed head, ReLU).",
    "proof idea (limsup ≤ 2)",
    **_FIXED_RIGHT,
    activation="relu",
)
@CLAIMS.add(
    "R-a.fixed-limit-leaky",
    f"{_LIMIT} (fixed head, leaky ReLU).",
    _KOU,
    **_FIXED_RIGHT,
    activation="leaky-relu",
)
def limit(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the largest stable rank in the last fifth of training over the five inits, against 2.

    The claim is about t → ∞. A value above the line contradicts it only when training has come to rest:
    the loss below a hundredth of log 2, and the stable rank changing by less than 1 % over the last fifth.
    """
    table = ends(frame, activation)
    note = "effect: largest stable rank in the last fifth of training"
    finding = verdict(table, "largest_late", over="max", below=2.0, note=note)
    drift = max((table["end"] / table["late"] - 1).abs().to_list())
    last = frame.filter(epoch == epoch.max())
    loss = max(measured(last, "loss", "mean", activation=activation)["value"].to_list())
    settled = finding.verdict is not Verdict.FAILS or (drift < 0.01 and loss < 0.01 * math.log(2))
    why = f"not at rest yet (loss {loss:.3g}, change {drift:.1%} in the last fifth)"
    return finding if settled else finding.left_open(why)


@CLAIMS.add("R-a.right", "The last 1,000 of 5,000 epochs are flat (ReLU).", "Fig 1 right")
@CLAIMS.add(
    "R-a.fixed-right",
    "The last 1,000 of 5,000 epochs are flat (fixed head, ReLU).",
    "Fig 1 right",
    **_FIXED_RIGHT,
)
def flat(frame: polars.DataFrame) -> Finding:
    """Per seed the largest relative change over the last fifth of training of the five inits, against 1 %."""
    change = ends(frame, "relu").with_columns(value=(polars.col("end") / polars.col("late") - 1).abs())
    return verdict(
        change, over="max", below=0.01, note="effect: relative change in the last fifth, largest of the inits"
    )


@CLAIMS.add(
    "R-m.falls",
    "From Frei et al.'s start (Glorot-uniform, leaky ReLU, fixed head) the stable rank falls as well.",
    "High-Dimensional Nearly-Orthogonal Data",
    parts=("glorot",),
    figure="glorot",
)
def glorot_falls(frame: polars.DataFrame) -> Finding:
    """Per seed final over initial stable rank, against 1."""
    ratio = _glorot(frame).with_columns(value=polars.col("end") / polars.col("start"))
    return verdict(ratio, below=1.0, note="effect: final/initial stable rank")


@CLAIMS.add(
    "R-m.beside",
    "It ends above what the Gaussian starts end at, whose scales are smaller.",
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
    return before_and_after(curves(frame, "stable-rank", "hidden.weight", by=["seed"]), by=["seed"])


for head, parts in (("trained head", ("main",)), ("fixed head", ("fixed-head",))):
    PUBLISHED.add(
        f"stable rank after training (ReLU, {head}, mean over the starts)",
        "about 2 to 3",
        "the curves of Fig 1 right",
        parts=parts,
    )(lambda frame: per_seed(ends(frame, "relu"), "end"))
