"""B-e … B-g: low frequencies are learned first, at any amplitude, and are destroyed last."""

from __future__ import annotations

import polars

from undertow.studies.kit.claim import CORRELATION, Finding
from undertow.studies.kit.per_seed import by_value, rank_correlation, verdict
from undertow.studies.kit.readings import after_training, measured, split_key
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "LEARNED", "learned_at", "of_frequencies"]

LEARNED = 0.2
_NETWORK = ["growing", "seed"]
CLAIMS = Claims("Rahaman et al. 2019", parts=("frequency",), figure="frequency")


def of_frequencies(table: polars.DataFrame, kind: str) -> polars.DataFrame:
    """The readings of one kind (``residual``, ``kept``) with their frequency k as a number."""
    split = split_key(table, ["kind", "k"]).filter(polars.col("kind") == kind)
    return split.with_columns(polars.col("k").cast(polars.Float64))


def learned_at(frame: polars.DataFrame) -> polars.DataFrame:
    """For every network and frequency the first step at which its residual is small, or all of its steps."""
    table = of_frequencies(measured(frame, "frequency-residuals"), "residual")
    step = polars.col("step")
    first = step.filter(polars.col("value") <= LEARNED).min().fill_null(step.max())
    return table.group_by(*_NETWORK, "k").agg(value=first).sort(*_NETWORK, "k")


@CLAIMS.add(
    "B-e", "Frequencies are learned from low to high at equal amplitudes.", "§3, Fig 2", growing=False
)
@CLAIMS.add("B-f", "Also where high frequencies have the larger amplitude.", "§3, Fig 2", growing=True)
def low_first(frame: polars.DataFrame, growing: bool) -> Finding:
    """Per seed Spearman's correlation of the frequency and the step at which it is learned."""
    table = learned_at(frame).filter(polars.col("growing") == growing)
    ranks = rank_correlation(table, "k", "value", by=["seed"])
    steps = by_value(table, "k", form="{place:g}: {mean:.0f}")
    note = ("effect: Spearman of frequency and step at which it is learned", f"mean step by k: {steps}")
    return verdict(ranks, above=0.0, within=CORRELATION, note=note)


@CLAIMS.add(
    "B-g", "Perturbing the weights destroys high frequencies first.", "§4, Fig 4", figure="frequency-noise"
)
def high_destroyed(frame: polars.DataFrame) -> Finding:
    """Per seed Spearman's correlation of the frequency and the share of it that noise on the weights leaves."""
    ended = of_frequencies(after_training(frame, "frequency-residuals"), "kept")
    table = ended.filter(~polars.col("growing"))
    ranks = rank_correlation(table, "k", "value", by=["seed"])
    note = (
        "effect: Spearman of frequency and share left under noise",
        f"share left by k: {by_value(table, 'k', form='{place:g}: {mean:.2f}')}",
    )
    return verdict(ranks, below=0.0, within=CORRELATION, note=note)
