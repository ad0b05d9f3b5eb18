"""F-t: on slabs the complex features are ignored and the linear one is all, and early training is linear."""

from __future__ import annotations

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import SHARE, Finding
from undertow.studies.kit.per_seed import mean, verdict
from undertow.studies.kit.readings import after_training, side_by_side
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS"]

_LEARNED = 0.9

CLAIMS = Claims(
    "Shah et al. 2020; Li 2024 talk, Connection to Simplicity Bias", parts=("slabs",), figure="slabs"
)


@CLAIMS.add(
    "F-t.complex",
    "On slab data gradient descent ignores the complex features: exchanging them costs no accuracy.",
)
def ignores_complex(frame: polars.DataFrame) -> Finding:
    """Per seed what exchanging the complex coordinates costs in accuracy, the larger of both starts."""
    table = _exchanged(frame).with_columns(lost=polars.col("none") - polars.col("complex"))
    note = f"effect: accuracy lost, larger of two starts; accuracy {mean(table['none']):.3f} before"
    return verdict(table, "lost", over="max", below=0.05, note=note)


@CLAIMS.add("F-t.simple", "It relies on the linear feature alone: exchanging that leaves chance.")
def needs_simple(frame: polars.DataFrame) -> Finding:
    """Per seed the accuracy once the linear coordinate is exchanged, the larger of both starts; chance is 1/2."""
    note = "effect: accuracy left, larger of two starts; chance is 0.5"
    return verdict(_exchanged(frame), "simple", over="max", below=0.6, within=SHARE, note=note)


@CLAIMS.add(
    "F-t.early",
    "Early in training a two-layer network with a small start behaves as a linear model.",
    source="Li 2024 talk, Outline (Early phase of GD: like a linear model)",
    parts=["early-linear"],
    figure="early-linear",
    check="seven of ten untrained networks pass the line of 0.9 too: near linear they are from the start",
)
def early_linear(frame: polars.DataFrame) -> Finding:
    """Per seed R² of the logit's linear fit when the network first is as accurate as the linear model, to a point."""
    table = side_by_side(frame, "linear-likeness", by=["seed", "step"])
    reached = table.filter(polars.col("accuracy") >= polars.col("linear_accuracy") - 0.01)
    if reached.is_empty():
        raise InputError("no network became as accurate as the linear model: train longer")
    first, start = (each.unique("seed", keep="first", maintain_order=True) for each in (reached, table))
    last = table.unique("seed", keep="last", maintain_order=True)
    note = (
        "effect: R² of the logit's best linear fit when the network first is as accurate as the best linear model "
        f"(before training, by chance, {mean(start['linearity']):.3f}; at the end {mean(last['linearity']):.3f}); "
        f"share of decisions equal to that model's then {mean(first['agree']):.3f}, at the end "
        f"{mean(last['agree']):.3f}; accuracy at the end {mean(last['accuracy']):.3f} against "
        f"{mean(last['linear_accuracy']):.3f}"
    )
    return verdict(first, "linearity", above=0.9, within=SHARE, note=note)


def _exchanged(frame: polars.DataFrame) -> polars.DataFrame:
    """After training: std, seed and the accuracy with nothing, the simple or the complex coordinates exchanged.

    A network at chance loses nothing by any exchange, and says nothing about what gradient descent uses.
    """
    last = after_training(frame, "randomised-features")
    table = last.pivot("key", index=["std", "seed"], values="value").sort("std", "seed")
    poor = int((table["none"] < _LEARNED).sum())
    if poor:
        raise InputError(f"{poor} of {len(table)} networks have not learned the slabs: train longer")
    return table
