"""F-m: two blocks for two classes, a diagonal for ten, on features as they are and with their mean taken away."""

from __future__ import annotations

import polars

from undertow.studies.kit.claim import SHARE, Finding
from undertow.studies.kit.data_names import written
from undertow.studies.kit.per_seed import mean, verdict
from undertow.studies.kit.readings import after_training, split_key
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "cosines_in_threes"]

_OWN, _VALUE = polars.col("own"), polars.col("value")
_BLOCKS = "Trained on two classes, neurons align with all classes of their side: two blocks"
_DIAGONAL = "Trained on ten classes, neurons align with their own class: a diagonal"

CLAIMS = Claims(
    "Li, Pan, Lyu & Li 2025, slides, Fig 1 (CIFAR-10 features)",
    parts=("features-two", "features-ten"),
    figure="frozen-features",
)


@CLAIMS.add("F-m.blocks", f"{_BLOCKS} (features as they are).", centred=False)
@CLAIMS.add("F-m.blocks.centred", f"{_BLOCKS} (centred features).", centred=True)
def blocks(frame: polars.DataFrame, *, centred: bool) -> Finding:
    """Per seed, of a side's mean neuron: least cosine with an own class less largest with another."""
    table = _chosen(frame, "features-two", centred=centred).with_columns(side=polars.col("three") < 5)
    neuron = table.group_by("seed", "side", "feature", "own").agg(_VALUE.mean())
    own, others = _VALUE.filter(_OWN), _VALUE.filter(~_OWN)
    gaps = neuron.group_by("seed", "side").agg(gap=own.min() - others.max(), least=own.min(), most=own.max())
    note = (
        "effect: least cosine with an own class less largest with another, of a side's mean neuron, worse side; own "
        f"classes {mean(gaps['least']):.2f} to {mean(gaps['most']):.2f}; on {written(table['of'])}"
    )
    return verdict(gaps, "gap", over="min", above=0.0, note=note)


@CLAIMS.add("F-m.diagonal", f"{_DIAGONAL} (features as they are).", centred=False)
@CLAIMS.add("F-m.diagonal.centred", f"{_DIAGONAL} (centred features).", centred=True)
def diagonal(frame: polars.DataFrame, *, centred: bool) -> Finding:
    """Per seed the share of threes whose largest mean cosine is with their own class, strictly."""
    table = _chosen(frame, "features-ten", centred=centred)
    own, others = _VALUE.filter(_OWN).first(), _VALUE.filter(~_OWN)
    threes = table.group_by("seed", "three").agg(first=own > others.max(), own=own)
    note = (
        "effect: share of threes whose largest mean cosine is with their own class; the mean own cosine is "
        f"{mean(threes['own']):.2f}; on {written(table['of'])}"
    )
    return verdict(threes, "first", above=0.9, within=SHARE, note=note)


def _chosen(frame: polars.DataFrame, part: str, *, centred: bool) -> polars.DataFrame:
    table = cosines_in_threes(frame)
    return table.filter(polars.col("part") == part, polars.col("centred") == centred)


def cosines_in_threes(frame: polars.DataFrame) -> polars.DataFrame:
    """After training: part, of, centred, seed, three (0 … 9), feature, the mean cosine (``value``), own (boolean)."""
    column, whole = polars.col, polars.Int64
    pairs = after_training(frame, "feature-cosines").filter(column("key").str.contains(r"^\d+:\d+$"))
    table = (
        split_key(pairs, ["neuron", "feature"])
        .with_columns(three=column("neuron").cast(whole) // 3, feature=column("feature").cast(whole))
        .group_by("part", "of", "centred", "seed", "three", "feature")
        .agg(column("value").mean())
    )
    # Parity: odd classes are positive; first against last five: the last. The first five threes are positive neurons.
    last_five, odd = column("feature") >= 5, column("feature") % 2 == 1
    positive = polars.when(column("of") == "cifar10").then(last_five).otherwise(odd)
    side, diagonal = (column("three") < 5) == positive, column("three") == column("feature")
    own = polars.when(column("part") == "features-two").then(side).otherwise(diagonal)
    return table.with_columns(own=own).sort("part", "centred", "seed", "three", "feature")
