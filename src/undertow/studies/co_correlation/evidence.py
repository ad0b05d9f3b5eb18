"""From values of networks to a verdict: which values are independent of each other, and ranks within a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from undertow.core.errors import InputError
from undertow.studies.kit.claim import Finding, decide

if TYPE_CHECKING:
    import polars

__all__ = ["by_value", "rank_correlation", "verdict"]

Worst = Literal["mean", "min", "max"]


def verdict(
    table: polars.DataFrame,
    *,
    over: Worst = "mean",
    above: float | None = None,
    below: float | None = None,
    within: tuple[float, float] | None = None,
    note: str,
) -> Finding:
    """Decide on column ``value``: one number per seed, the mean or the worst of the seed's rows.

    All networks of one seed come from the same draw: their W are multiples of each other at one width, so they are no
    further evidence, and neither are widths. A seed of which one row is not known (NaN) has no such number; rows
    without a value (null) are left out, and a seed that has no other has none either.
    """
    import polars

    if table.is_empty():
        raise InputError("no network to decide on")
    value = polars.col("value").cast(polars.Float64).drop_nulls()
    worst: dict[str, polars.Expr] = {"mean": value.mean(), "min": value.nan_min(), "max": value.nan_max()}
    values = table.group_by("seed").agg(value=worst[over]).sort("seed")["value"].to_list()
    return decide(values, above=above, below=below, within=within, note=note)


def rank_correlation(table: polars.DataFrame, one: str, other: str, *, by: Sequence[str]) -> polars.DataFrame:
    """Spearman's correlation of two columns in every group of rows: columns ``by`` and ``value``.

    Groups of fewer than three rows, or in which a column is constant, have none (null). A group in which a number is
    not known has NaN: ranked, it would pass for the largest of all.
    """
    import polars

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


def by_value(table: polars.DataFrame, axis: str, *, digits: int = 2) -> str:
    """Means of ``value`` for each value of an axis that has any, as a phrase: "16: +0.12, 64: +0.30"."""
    import polars

    means = table.group_by(axis).agg(polars.col("value").mean()).drop_nulls().sort(axis)
    return ", ".join(f"{place:g}: {mean:+.{digits}f}" for place, mean in means.iter_rows())
