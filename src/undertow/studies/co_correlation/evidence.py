"""From values of networks to a verdict: which values are independent of each other, and ranks within a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from undertow.errors import InputError
from undertow.studies.claims import FEWEST_SEEDS, Finding, Verdict, decide

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

    All networks of one seed come from the same draw: their W are multiples of each other at one width, so they
    are no further evidence. Where there are too few seeds and the table has a column ``width``, the numbers are one
    per width instead, since widths differ in almost all of their draw; the note then says so. Widths are not draws of
    one thing as seeds are: what is claimed of the worst network then has to be true of every width, not of their mean.
    """
    import polars

    finite = table.filter(polars.col("value").is_finite())
    if finite.is_empty():
        raise InputError("no network to decide on")
    unit = "seed"
    if finite["seed"].n_unique() < FEWEST_SEEDS and "width" in finite.columns:
        widths = finite["width"].n_unique()
        if widths >= FEWEST_SEEDS:
            unit = "width"
            each = "" if over == "mean" else ", and the effect is the mean of what each width has"
            note = f"{note}; n counts widths, of {finite['seed'].n_unique()} seed{each}"
    value = polars.col("value")
    worst: dict[str, Any] = {"mean": value.mean(), "min": value.min(), "max": value.max()}
    values: Sequence[float] = finite.group_by(unit).agg(worst[over]).sort(unit)["value"].to_list()
    found = decide(values, above=above, below=below, within=within, note=note)
    if unit == "width" and over != "mean" and found.verdict is Verdict.HOLDS:
        wrong = [one for one in values if (one <= above if above is not None else one >= (below or 0.0))]
        if wrong:
            note = f"{note}; but not so at {len(wrong)} of {len(values)} widths"
            return replace(found, verdict=Verdict.UNDECIDED, note=note)
    return found


def rank_correlation(table: polars.DataFrame, one: str, other: str, *, by: Sequence[str]) -> polars.DataFrame:
    """Spearman's correlation of two columns in every group of rows: columns ``by`` and ``value``.

    Groups of fewer than three rows, or in which a column is constant, have none and are left out.
    """
    import polars

    return (
        table.group_by(by)
        .agg(
            value=polars.corr(one, other, method="spearman"),
            rows=polars.len(),
            one=polars.col(one).n_unique(),
            other=polars.col(other).n_unique(),
        )
        .filter((polars.col("rows") >= 3) & (polars.col("one") > 1) & (polars.col("other") > 1))
        .select(*by, "value")
        .sort(by)
    )


def by_value(table: polars.DataFrame, axis: str, *, digits: int = 2) -> str:
    """Means of ``value`` for each value of an axis, as a phrase: "16: +0.12, 64: +0.30"."""
    import polars

    means = table.group_by(axis).agg(polars.col("value").mean()).sort(axis)
    return ", ".join(f"{place:g}: {mean:+.{digits}f}" for place, mean in means.iter_rows())
