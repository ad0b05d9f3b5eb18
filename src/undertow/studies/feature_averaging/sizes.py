"""One row per network, and how its numbers scale with d and k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from undertow.core.errors import InputError
from undertow.studies.feature_averaging.lines import after_training

if TYPE_CHECKING:
    import polars

__all__ = ["SEEN", "by_seed", "exponents", "in_every_part", "largest", "most", "networks", "one_per_seed"]

SEEN = "the line was written down after single exploratory trainings of both variants"
"""The hindsight of most claims on synthetic clusters."""
_AXES = ("part", "trial", "seed", "d", "n", "k", "noise", "cosine", "balance", "std", "group", "threshold")


def networks(frame: polars.DataFrame, measure: str) -> polars.DataFrame:
    """A measure's readings after training: a row for every network, its axes and one column for each key."""
    import polars

    last = after_training(frame, measure).filter(~polars.col("key").str.contains(r"\d:\d"))
    axes = [name for name in _AXES if name in last.columns]
    return last.pivot("key", index=axes, values="value").sort("part", "seed", "trial")


def largest(table: polars.DataFrame, axis: str) -> polars.DataFrame:
    """The networks at the largest value of an axis."""
    import polars

    return table.filter(polars.col(axis) == polars.col(axis).max())


def in_every_part(table: polars.DataFrame) -> polars.DataFrame:
    """The networks of seeds that every part has: others cannot speak for the worst of all sizes, and would dilute it.

    >>> import polars
    >>> table = polars.DataFrame({"part": ["one", "one", "two"], "seed": [0, 1, 0]})
    >>> in_every_part(table)["seed"].to_list()
    [0, 0]
    """
    import polars

    parts = polars.col("part")
    return table.filter(parts.n_unique().over("seed") == parts.n_unique())


def most(table: polars.DataFrame, axis: str) -> int:
    """The largest value of an axis of whole numbers."""
    return int(max(table[axis].to_list()))


def by_seed(table: polars.DataFrame, key: str, how: Literal["max", "min"] = "max") -> list[float]:
    """The largest or smallest value of each seed's networks, in the seeds' order; seeds without any are left out.

    NaN if one of them is: a network that has no such number is neither the best nor the worst.
    """
    if key not in table.columns or table[key].null_count() == len(table):
        raise InputError(f"no record of {key}")
    value = _column(key)
    best = table.group_by("seed").agg(value.nan_max() if how == "max" else value.nan_min()).sort("seed")
    return [float(each) for each in best[key].drop_nulls()]


def one_per_seed(table: polars.DataFrame, key: str) -> dict[int, float]:
    """Seed → value, where each seed has one network."""
    if key not in table.columns:
        raise InputError(f"no record of {key}")
    return {int(seed): float(value) for seed, value in table.select("seed", key).drop_nulls().iter_rows()}


def exponents(table: polars.DataFrame, x: str, key: str) -> list[float]:
    """For each seed with several x the slope of log value against log x, by least squares.

    >>> import polars
    >>> rows = [{"seed": 0, "d": d, "radius": 3 * d**0.5} for d in (10, 20, 80)]
    >>> [round(slope, 6) for slope in exponents(polars.DataFrame(rows), "d", "radius")]
    [0.5]
    """
    if key not in table.columns:
        raise InputError(f"no record of {key}")
    slopes = []
    for (_,), own in table.sort("seed").group_by("seed", maintain_order=True):
        own = own.drop_nulls(key)
        if own[x].n_unique() >= 2:
            slopes.append(slope(own[x].to_list(), own[key].to_list()))
    if not slopes:
        raise InputError(f"an exponent needs {key} at two values of {x} or more")
    return slopes


def slope(x: Sequence[float], values: Sequence[float]) -> float:
    """The slope of log value against log x; NaN where a value is not positive."""
    if min(values) <= 0:
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(values), 1)[0])


def _column(key: str) -> polars.Expr:
    import polars

    return polars.col(key)
