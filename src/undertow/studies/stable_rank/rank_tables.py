"""Tables of stable ranks: curves by start, what they end at, and how far they follow the order of the starts."""

from __future__ import annotations

from collections.abc import Sequence

import polars

from undertow.studies.kit.claim import CORRELATION, Finding
from undertow.studies.kit.per_seed import rank_correlation, verdict
from undertow.studies.kit.readings import before_and_after, curves, measured

__all__ = ["HINDSIGHT", "SOURCE", "by_start", "ends", "judged_order", "stable_ranks", "starts_order"]

SOURCE = "Sun & Tran 2023, stable-rank report"
HINDSIGHT = "two of the ten seeds were seen while the step of the training rule was chosen"
epoch = polars.col("epoch")


def by_start(frame: polars.DataFrame) -> polars.DataFrame:
    """The frame with its axis of starts, standard deviations or variances, called ``init``."""
    axis = "std" if "std" in frame.columns else "variance"
    return frame.rename({axis: "init"})


def stable_ranks(
    frame: polars.DataFrame, *, by: Sequence[str] = ("activation", "seed", "init"), time: str = "epoch"
) -> polars.DataFrame:
    """Stable rank of the first layer: the columns ``by``, the time, value."""
    return curves(by_start(frame), "stable-rank", "hidden.weight", by=by, time=time)


def ends(frame: polars.DataFrame, activation: str) -> polars.DataFrame:
    """For every seed and init: the stable rank at the ``start``, ``late`` (after four fifths), and at the ``end``."""
    network, what = ("activation", "seed", "init"), f"the stable rank of {activation} networks"
    table = stable_ranks(measured(frame, "stable-rank", activation=activation, what=what))
    late = table.filter(epoch >= 0.8 * epoch.max()).group_by(network, maintain_order=True)
    fifth = late.agg(late=polars.col("value").first())
    return before_and_after(table, by=network).join(fifth, on=network).drop_nulls()


def starts_order(table: polars.DataFrame, *, by: Sequence[str] = ("seed",)) -> polars.DataFrame:
    """In every group the Spearman correlation of the final stable rank with the scale of the start."""
    return rank_correlation(table, "init", "end", by=by)


def judged_order(frame: polars.DataFrame, activation: str, *, follows: bool = True) -> Finding:
    """Whether the final stable ranks follow the starts' scales: Spearman above 0; or do not, which is below 0.9."""
    found = starts_order(ends(frame, activation))
    line = {"above": 0.0} if follows else {"below": 0.9}
    note = "effect: Spearman of final stable rank and init scale"
    return verdict(found, **line, within=CORRELATION, note=note)  # type: ignore[arg-type]
