"""Tables that the topics share: readings beside the loss and the time at which they were taken."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.readings import interpolated, measured, side_by_side

__all__ = ["SMALL_LOSS", "against_loss", "levelled", "with_power_law", "with_time"]

_LEVELS = tuple(10 ** (place / 20) for place in range(-6, 81))
SMALL_LOSS = math.log10(math.log(2))
"""t0: the theorem's first moment, where the summed logistic loss falls below log 2."""


def against_loss(
    frame: polars.DataFrame, *others: str, by: Sequence[str], after: float = SMALL_LOSS
) -> polars.DataFrame:
    """Margins, and all numbers of other measures taken at the same steps, once log₁₀ 𝓛 is below ``after``.

    A row for each network (``by``) and step; ``fallen`` is log₁₀ 1/𝓛, positive.
    """
    table = side_by_side(frame, "margins", by=[*by, "step"])
    for other in others:
        beside = side_by_side(frame, other, by=[*by, "step"])
        clash = [name for name in beside.columns if name in table.columns and name not in (*by, "step")]
        table = table.join(beside.drop(clash), on=[*by, "step"])
    table = table.filter(polars.col("log10-loss") < after).with_columns(fallen=-polars.col("log10-loss"))
    if table.is_empty():
        raise InputError(f"no network came down to a loss of 10^{after:.2g}: train longer")
    return table.sort(*by, "step")


def with_time(table: polars.DataFrame, frame: polars.DataFrame, *, by: Sequence[str]) -> polars.DataFrame:
    """The same with ``log_time`` = log t, t = Σ η of the effective steps −η ∇𝓛.

    Records have the steps −η ∇(𝓛/n) that training takes: their η is n times that, and n tells both losses apart.
    """
    rows = side_by_side(frame, "steps", by=[*by, "step"], what="the time t = Σ η").drop_nulls("log_time")
    summed = measured(frame, "margins", "log10-loss").select(*by, "step", summed="value")
    log_n = math.log(10) * (polars.col("summed") - polars.col("log10_loss"))
    times = rows.join(summed, on=[*by, "step"]).select(*by, "step", log_time=polars.col("log_time") - log_n)
    return table.join(times, on=[*by, "step"])


def with_power_law(table: polars.DataFrame, x: str, power: float, *, kind: str) -> polars.DataFrame:
    """Curves (columns seed, x, ``kind`` and value) and c x^power, called ``kind``, through their first mean.

    The law is every seed's, so that a figure counts the networks that it shows.
    """
    start = table[x].min()
    first = table.filter(polars.col(x) == start)
    law = first["value"].mean() * (polars.col(x) / start) ** power
    places = table.select(x).unique().sort(x).join(table.select("seed").unique(), how="cross")
    line = places.with_columns(value=law, kind=polars.lit(kind))
    return polars.concat([table, line.select(table.columns)])


def levelled(table: polars.DataFrame, *kinds: str, within: Sequence[str] = ()) -> polars.DataFrame:
    """Means over ``within`` of every seed's values at common levels of ``fallen``, for curves told apart by ``kinds``.

    A level that some networks of a kind have not reached, or passed before their first reading, is left out: its mean
    would be one of others.
    """
    found = interpolated(table, _LEVELS, by=["seed", *kinds, *within], x="fallen")
    found = found.filter(polars.col("value").is_finite())
    found = found.with_columns(count=polars.len().over(*kinds, "fallen"))
    whole = found.filter(polars.col("count") == polars.col("count").max().over(kinds))
    return (
        whole.group_by("seed", *kinds, "fallen")
        .agg(polars.col("value").mean())
        .sort(*kinds, "fallen", "seed")
    )
