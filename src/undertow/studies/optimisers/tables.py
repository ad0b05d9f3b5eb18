"""Tables that the topics share: which rule a network was trained by, and how far its margin has come."""

from __future__ import annotations

import polars

from undertow.studies.kit.readings import after_training, side_by_side
from undertow.studies.optimisers.rules import RULES

__all__ = ["NETWORK", "progress", "with_rules"]

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
