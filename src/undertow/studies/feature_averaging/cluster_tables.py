"""One row per network on clusters: its coefficients, cosines and radii after training."""

from __future__ import annotations

import polars

from undertow.core.errors import InputError
from undertow.studies.feature_averaging.cluster_grids import FULL, THRESHOLD
from undertow.studies.kit.per_seed import by_value, mean
from undertow.studies.kit.readings import after_training

__all__ = [
    "SEEN",
    "at_paper_size",
    "in_every_part",
    "networks",
    "provable",
    "radii",
    "radius_by",
    "share_proved",
]

SEEN = "the line was written down after single exploratory trainings of both variants"
"""The hindsight of most claims on synthetic clusters."""
_AXES = ("part", "trial", "seed", "d", "n", "k", "noise", "cosine", "balance", "std", "group", "threshold")
_SIDES = ("certified", "attacked", "averaged", "exact", "native:attacked")


def networks(frame: polars.DataFrame, measure: str) -> polars.DataFrame:
    """A measure's readings after training: a row for every network, its axes and one column for each key."""
    last = after_training(frame, measure).filter(~polars.col("key").str.contains(r"\d:\d"))
    axes = [name for name in _AXES if name in last.columns]
    return last.pivot("key", index=axes, values="value").sort("part", "seed", "trial")


def radii(frame: polars.DataFrame) -> polars.DataFrame:
    """Every network's readings of the radius, with mean radii in units of length (``attacked`` and so on times √d)."""
    table = networks(frame, "cluster-radius")
    unit = polars.col("d").sqrt()
    sides = [side for side in _SIDES if side in table.columns]
    return table.with_columns((polars.col(side) * unit).alias(f"{side} length") for side in sides)


def in_every_part(table: polars.DataFrame) -> polars.DataFrame:
    """The networks of seeds that every part has: others cannot speak for the worst of all sizes, and would dilute it.

    >>> table = polars.DataFrame({"part": ["one", "one", "two"], "seed": [0, 1, 0]})
    >>> in_every_part(table)["seed"].to_list()
    [0, 0]
    """
    parts = polars.col("part")
    return table.filter(parts.n_unique().over("seed") == parts.n_unique())


def at_paper_size(table: polars.DataFrame) -> polars.DataFrame:
    """The networks at d = 3072, k = 10, by seed, for numbers that the theory gives at the paper's size."""
    chosen = table.filter(polars.col("d") == FULL, polars.col("k") == 10).sort("seed")
    if chosen.is_empty():
        raise InputError(f"no network at d = {FULL}, k = 10: the number is of that size; try a larger scale")
    return chosen


def most(table: polars.DataFrame, axis: str) -> int:
    """The largest value of an axis of whole numbers."""
    return int(max(table[axis].to_list()))


def provable(table: polars.DataFrame, *, optimal: bool = False) -> polars.DataFrame:
    """Of the f_robust networks those with threshold 1/2, whose radius linear bounds prove, or the ``optimal`` ones."""
    return table.filter((polars.col("threshold") - (THRESHOLD if optimal else 0.5)).abs() < 1e-9)


def share_proved(table: polars.DataFrame) -> float:
    """The share of points with a proof behind their certified radius; records without it are of two-layer networks."""
    known = table["proved"].drop_nulls() if "proved" in table.columns else polars.Series([1.0])
    return 1.0 if known.is_empty() else mean(known)


def radius_by(table: polars.DataFrame, axis: str, side: str) -> str:
    """The mean lengths for a note."""
    return f"radius by {axis}: {by_value(table, axis, value=f'{side} length', form='{mean:.3g} at {place}')}"
