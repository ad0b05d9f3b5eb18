"""The claims about Figure 1: whether the stable rank falls, how far, and in which order of the starts."""

from __future__ import annotations

import math

import polars

from undertow.studies.kit.claim import CORRELATION, Finding, Verdict
from undertow.studies.kit.per_seed import per_seed, rank_correlation, verdict
from undertow.studies.kit.readings import before_and_after, curves, measured
from undertow.studies.kit.statements import Claims, PublishedNumbers

__all__ = ["CLAIMS", "PUBLISHED", "stable_ranks"]

CLAIMS = Claims("Sun & Tran 2023, stable-rank report", figure="fig1-right")
PUBLISHED = PublishedNumbers("Sun & Tran 2023, stable-rank report")
_NETWORK, epoch = ("activation", "seed", "init"), polars.col("epoch")


def stable_ranks(frame: polars.DataFrame) -> polars.DataFrame:
    """Stable rank of the first layer: activation, seed, init, epoch, value."""
    init = "std" if "std" in frame.columns else "variance"
    return curves(frame.rename({init: "init"}), "stable-rank", "hidden.weight", by=_NETWORK)


def ends(frame: polars.DataFrame, activation: str) -> polars.DataFrame:
    """For every seed and init: the stable rank at the ``start``, ``late`` (after four fifths), and at the ``end``."""
    what = f"the stable rank of {activation} networks"
    table = stable_ranks(measured(frame, "stable-rank", activation=activation, what=what))
    late = table.filter(epoch >= 0.8 * epoch.max()).group_by(_NETWORK, maintain_order=True)
    fifth = late.agg(late=polars.col("value").first(), largest_late=polars.col("value").max())
    return before_and_after(table, by=_NETWORK).join(fifth, on=_NETWORK).drop_nulls()


@CLAIMS.add(
    "R-a.falls",
    "On mixture data the stable rank falls, whatever the scale of the start (ReLU).",
    "Fig 1 left",
    figure="fig1-left",
)
def falls(frame: polars.DataFrame) -> Finding:
    """Per seed the largest ratio of final to initial stable rank over the five inits, against 1."""
    ratio = ends(frame, "relu").with_columns(value=polars.col("end") / polars.col("start"))
    note = "effect: final/initial stable rank, largest of the five inits"
    return verdict(ratio, over="max", below=1.0, note=note)


@CLAIMS.add(
    "R-a.order",
    "The final stable rank follows the order of the init scales (ReLU).",
    "Fig 1 right and Interesting Findings",
)
def order(frame: polars.DataFrame) -> Finding:
    """Per seed the Spearman correlation of final stable rank and init scale, against 0."""
    ranks = rank_correlation(ends(frame, "relu"), "init", "end", by=["seed"])
    note = "effect: Spearman of final stable rank and init scale"
    return verdict(ranks, above=0.0, within=CORRELATION, note=note)


@CLAIMS.add(
    "R-a.limit", "The stable rank's limit is at most 2 (ReLU).", "proof idea (limsup ≤ 2)", activation="relu"
)
@CLAIMS.add(
    "R-a.limit-leaky",
    "The stable rank's limit is at most 2 for leaky ReLU as well.",
    "Fig 1; Kou, Chen & Gu 2023 prove 1",
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


PUBLISHED.add(
    "stable rank after training (ReLU, mean over the starts)", "about 2 to 3", "the curves of Fig 1 right"
)(lambda frame: per_seed(ends(frame, "relu"), "end"))
