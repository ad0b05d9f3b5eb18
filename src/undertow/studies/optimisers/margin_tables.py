"""Tables that the topics share: which rule a network was trained by, and how far its margin has come."""

from __future__ import annotations

import polars

from undertow.studies.kit.per_seed import mean
from undertow.studies.kit.readings import after_training, side_by_side
from undertow.studies.optimisers.rules import RULES

__all__ = ["NETWORK", "end_and_half", "progress", "with_rules"]

NETWORK = ("kind", "rule", "seed")


def with_rules(frame: polars.DataFrame) -> polars.DataFrame:
    """The records with columns ``kind`` and ``rule``, from their part's name, and ``own``, the rule's norm."""
    both = polars.col("part").str.split_exact("-", 1).struct
    own = polars.col("rule").replace_strict({name: rule.norm for name, rule in RULES.items()}, default=None)
    return frame.with_columns(kind=both.field("field_0"), rule=both.field("field_1")).with_columns(own=own)


def progress(frame: polars.DataFrame) -> polars.DataFrame:
    """kind, rule, seed, own, step, and for every norm of the weights the margin as a share of the largest: 1, 2, …"""
    named = with_rules(frame)
    margins = side_by_side(named, "norm-margins", by=[*NETWORK, "own", "step"])
    best = after_training(named, "linear-optimum").pivot("key", index=list(NETWORK), values="value")
    norms = [name.removeprefix("margin:") for name in margins.columns if name.startswith("margin:")]
    both = margins.join(best, on=list(NETWORK))
    return both.with_columns(
        (polars.col(f"margin:{norm}") / polars.col(f"optimum:{norm}")).alias(norm) for norm in norms
    ).sort(*NETWORK, "step")


def end_and_half(table: polars.DataFrame, share: str) -> tuple[polars.DataFrame, float]:
    """The rows at the end of every network, and by what its gap 1 − share was multiplied while steps doubled, the mean.

    A gap that has shrunk by less than a tenth while the steps doubled is not on its way to 0.
    """
    last, by = polars.col("step").max().over(*NETWORK), list(NETWORK)
    known = table.drop_nulls(share).with_columns(gap=1 - polars.col(share), last=last)
    end = known.filter(polars.col("step") == polars.col("last"))
    half = (
        known.filter(polars.col("step") <= polars.col("last") / 2)
        .group_by(by)
        .agg(half=polars.col("gap").last())
    )
    both = end.join(half, on=by)
    return end, mean((both["gap"] / both["half"]).fill_nan(1.0)) if len(both) else 0.0
