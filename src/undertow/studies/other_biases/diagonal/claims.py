"""B-p: the L2 radius falls while the L∞ radius rises, near log α/λ where α is large."""

from __future__ import annotations

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import CORRELATION, Finding
from undertow.studies.kit.per_seed import by_value, mean, rank_correlation, verdict
from undertow.studies.kit.readings import side_by_side
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "between_ends"]

_NETWORK = ["k", "start", "weight_decay", "learning_rate", "seed"]
_SEEN = "α, λ and the lines were chosen after a look at one draw of points"
CLAIMS = Claims("ours, after Lyu et al. 2024", parts=("diagonal",), figure="diagonal", hindsight=_SEEN)


def between_ends(frame: polars.DataFrame) -> polars.DataFrame:
    """All readings of every network over training, and its ``progress``: ηλ·steps/log α."""
    table = side_by_side(frame, "margin-ends", by=[*_NETWORK, "step"])
    time = polars.col("step") * polars.col("learning_rate") * polars.col("weight_decay")
    return table.with_columns(progress=time / polars.col("start").log())


@CLAIMS.add("B-p.l2", "Through the change the L2 radius falls.", norm="2")
@CLAIMS.add("B-p.inf", "While the L∞ radius rises.", norm="inf")
def changes(frame: polars.DataFrame, norm: str) -> Finding:
    """Per seed log₁₀ of the last radius over that when the network is nearest to the largest L2 margin."""
    radius, nearest = polars.col(f"radius:{norm}"), polars.col("cosine:2").arg_max()
    curves = between_ends(frame).sort(*_NETWORK, "step").group_by(_NETWORK, maintain_order=True)
    table = curves.agg(before=radius.get(nearest), after=radius.last())
    table = table.with_columns(value=(polars.col("after") / polars.col("before")).log10())
    note = (
        f"effect: log₁₀ of the last L{'∞' if norm == 'inf' else norm} radius over that nearest to the L2 end",
        f"{mean(table['before']):.3g} and then {mean(table['after']):.3g} in the mean",
        f"by sparsity: {by_value(table, 'k')}",
    )
    above, below = (0.0, None) if norm == "inf" else (None, 0.0)
    return verdict(table, above=above, below=below, note=note)


def change(frame: polars.DataFrame) -> polars.DataFrame:
    """ηλ·steps/log α when a network comes nearer to the L1 end than to the other."""
    later = polars.col("cosine:1") > polars.col("cosine:2")
    curves = between_ends(frame).filter(polars.col("step") > 0).group_by(_NETWORK)
    return curves.agg(value=polars.col("progress").filter(later).min()).sort(_NETWORK)


@CLAIMS.add("B-p.time", "The change comes near t = log α/λ.")
def time_of_change(frame: polars.DataFrame) -> Finding:
    """Per seed ηλ·steps/log α at the change, mean over networks, between a half and two."""
    table = change(frame)
    places = [f"by {axis}: {by_value(table, axis)}" for axis in ("k", "start")]
    return verdict(table, between=(0.5, 2.0), note=("effect: ηλ·steps/log α at the change", *places))


@CLAIMS.add(
    "B-p.limit", "The nearer to it the larger α is.", hindsight="written after the records of paper scale"
)
def nearer_from_larger_starts(frame: polars.DataFrame) -> Finding:
    """Per seed Spearman's correlation of α and ηλ·steps/log α at the change, mean over sparsities and decays."""
    if frame["start"].n_unique() < 3:
        raise InputError("fewer than three starts: they are there at paper scale")
    ranks = rank_correlation(change(frame), "start", "value", by=["k", "weight_decay", "seed"])
    return verdict(ranks, below=0.0, within=CORRELATION, note="effect: Spearman of α and time over log α/λ")
