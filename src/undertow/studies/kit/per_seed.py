"""From networks to seeds, and from seeds to a verdict: only seeds are replicates, so that each has one number."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import Finding, decide

__all__ = ["Over", "by_value", "exponents", "mean", "per_seed", "rank_correlation", "slopes", "verdict"]

Over = Literal["mean", "min", "max"]


def per_seed(table: polars.DataFrame, value: str = "value", over: Over = "mean") -> list[float | None]:
    """One number per seed, in the seeds' order: the mean or the worst of its rows.

    All networks of one seed come from the same draw: they are no further evidence, and neither are widths or moments.
    A seed of which one row is not known (NaN) has no such number; rows without a value (null) are left out, and a seed
    that has no other has none either.
    """
    if table.is_empty():
        raise InputError("no network to decide on")
    if value not in table.columns:
        raise InputError(f"no record of {value}")
    column = polars.col(value).cast(polars.Float64).drop_nulls()
    worst = {"mean": column.mean(), "min": column.nan_min(), "max": column.nan_max()}
    return table.group_by("seed").agg(value=worst[over]).sort("seed")["value"].to_list()


def verdict(
    table: polars.DataFrame,
    value: str = "value",
    *,
    over: Over = "mean",
    above: float | None = None,
    below: float | None = None,
    between: tuple[float, float] | None = None,
    within: tuple[float, float] | None = None,
    note: str | Sequence[str],
) -> Finding:
    """Decide on a column, one number per seed; a note of several phrases is joined by semicolons.

    Args:
        table: One row per network, or per network and moment, with a column ``seed``.
        value: The column that is judged.
        over: The mean of a seed's rows, or the worst of them.
        above: The line, where the claim says that the median seed is above it; see ``decide`` for this and the rest.
        below: The line, where the claim says that it is below.
        between: Two lines.
        within: The range of values that can occur at all.
        note: What the effect is, and what a reader should know beside it.
    """
    text = note if isinstance(note, str) else "; ".join(filter(None, note))
    values = per_seed(table, value, over)
    return decide(values, above=above, below=below, between=between, within=within, note=text)


def rank_correlation(table: polars.DataFrame, one: str, other: str, *, by: Sequence[str]) -> polars.DataFrame:
    """Spearman's correlation of two columns in every group of rows: columns ``by`` and ``value``.

    Groups of fewer than three rows, or in which a column is constant, have none (null). A group in which a number is
    not known has NaN: ranked, it would pass for the largest of all.
    """
    columns = [polars.col(name).cast(polars.Float64) for name in (one, other)]
    unknown, varied = polars.lit(False), polars.len() >= 3
    for each in columns:
        unknown |= (each.is_nan() | each.is_null()).any()
        varied &= each.n_unique() > 1
    return (
        table.group_by(by)
        .agg(rank=polars.corr(*columns, method="spearman"), unknown=unknown, varied=varied)
        .with_columns(value=polars.when("unknown").then(float("nan")).when("varied").then(polars.col("rank")))
        .select(*by, "value")
        .sort(by)
    )


def slopes(
    table: polars.DataFrame, x: str, y: str, *, by: Sequence[str] = ("seed",), log: bool = False
) -> polars.DataFrame:
    """The slope of y against x by least squares in every group of rows: columns ``by`` and ``value``.

    With ``log`` that of log y against log x, an exponent. Groups with one x alone have none and are left out; one with
    a number that is not known, or has no logarithm, has NaN.

    >>> table = polars.DataFrame({"seed": [0, 0, 0], "d": [10, 20, 80], "radius": [30.0, 60.0, 240.0]})
    >>> [round(each, 9) for each in slopes(table, "d", "radius")["value"]]
    [3.0]
    """
    if y not in table.columns:
        raise InputError(f"no record of {y}")
    found = []
    for names, own in table.drop_nulls(y).sort(*by, maintain_order=True).group_by(by, maintain_order=True):
        if own[x].n_unique() >= 2:
            pair = own[x].cast(polars.Float64).to_numpy(), own[y].cast(polars.Float64).to_numpy()
            found.append({**dict(zip(by, names, strict=True)), "value": _slope(*pair, log=log)})
    if not found:
        raise InputError(f"a slope needs {y} at two values of {x} or more")
    return polars.DataFrame(found)


def exponents(table: polars.DataFrame, x: str, y: str) -> list[float]:
    """For each seed p in y ∝ x^p, by least squares of logarithms.

    >>> rows = [{"seed": 0, "d": d, "radius": 3 * d**0.5} for d in (10, 20, 80)]
    >>> [round(p, 6) for p in exponents(polars.DataFrame(rows), "d", "radius")]
    [0.5]
    """
    return slopes(table, x, y, log=True)["value"].to_list()


def _slope(x: np.ndarray, y: np.ndarray, *, log: bool) -> float:
    if log:
        if min(x.min(), y.min()) <= 0:
            return float("nan")
        x, y = np.log(x), np.log(y)
    return float(np.polyfit(x, y, 1)[0]) if np.isfinite(x).all() and np.isfinite(y).all() else float("nan")


def by_value(
    table: polars.DataFrame, axis: str, *, value: str = "value", form: str = "{place:g}: {mean:+.2f}"
) -> str:
    """Means for each value of an axis that has any, as a phrase: "16: +0.12, 64: +0.30"."""
    means = table.group_by(axis).agg(polars.col(value).mean()).drop_nulls().sort(axis)
    return ", ".join(form.format(place=place, mean=mean) for place, mean in means.iter_rows())


def mean(values: polars.Series) -> float:
    """The mean as a number, for sentences; what is not there (null) is left out.

    >>> mean(polars.Series([1.0, 2.0, None]))
    1.5
    """
    return statistics.fmean(values.drop_nulls().to_list())
