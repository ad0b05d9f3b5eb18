"""R-l: whether the order of the stable ranks follows that of the starts exactly when the data are nearly orthogonal."""

from __future__ import annotations

import polars

from undertow.core.errors import InputError
from undertow.data.orthogonality import MEASURED
from undertow.studies.kit.claim import CORRELATION, Finding
from undertow.studies.kit.per_seed import by_value, rank_correlation, verdict
from undertow.studies.kit.readings import after_training, compared
from undertow.studies.kit.statements import Claims
from undertow.studies.stable_rank.rank_tables import SOURCE, by_start, ends, starts_order

__all__ = ["CLAIMS", "orders"]

CLAIMS = Claims(SOURCE, parts=("cosines",), figure="order-by-cosine")
_PLACE = "Interesting Findings"
_MIXTURE = 0.9
"""Of ten points of the mixture in 784 dimensions; which of the data sets comes first is all that is asked."""


def orders(frame: polars.DataFrame) -> polars.DataFrame:
    """How far the final stable ranks follow the starts: cosine, d, seed, value."""
    rows = by_start(after_training(frame, "stable-rank", "hidden.weight"))
    return starts_order(rows.rename({"value": "end"}), by=["cosine", "d", "seed"])


@CLAIMS.add(
    "R-l.near", "On orthogonal points the stable ranks follow the order of the starts.", _PLACE, largest=False
)
@CLAIMS.add("R-l.far", "On points of one direction (cosine 0.9) they do not.", _PLACE, largest=True)
def at_one_end(frame: polars.DataFrame, largest: bool) -> Finding:
    """Per seed the mean over both dimensions of the Spearman correlation; above 0, or below 0.9."""
    table = orders(frame)
    cosine = polars.col("cosine")
    chosen = table.filter(cosine == (cosine.max() if largest else cosine.min()))
    line = {"below": 0.9} if largest else {"above": 0.0}
    note = (
        "effect: Spearman of final stable rank and init scale",
        f"by cosine: {by_value(table, 'cosine')}",
    )
    return verdict(chosen, **line, within=CORRELATION, note=note)  # type: ignore[arg-type]


@CLAIMS.add("R-l.change", "The nearer points are to one direction, the less the order is followed.", _PLACE)
def weaker_with_cosine(frame: polars.DataFrame) -> Finding:
    """Per seed the Spearman correlation of the cosine with how far the order is followed, mean over d."""
    table = orders(frame).group_by("cosine", "seed").agg(polars.col("value").mean())
    flat = table.group_by("seed").agg((polars.col("value").n_unique() == 1).alias("flat"))
    found = rank_correlation(table, "cosine", "value", by=["seed"]).join(flat, on="seed")
    # Followed equally at every cosine: there is no change, in either direction.
    value = polars.when("flat").then(0.0).otherwise("value")
    return verdict(
        found.with_columns(value=value),
        below=0.0,
        within=CORRELATION,
        note="effect: Spearman of cosine and how far the order is followed",
    )


@CLAIMS.add(
    "R-l.dimension",
    "At one cosine, low and high dimension differ by less than 0.1 in how far the order is followed.",
    _PLACE,
)
def dimension(frame: polars.DataFrame) -> Finding:
    """Per seed the mean over cosines of the difference of high and low dimension."""
    table = orders(frame)
    low, high = table["d"].unique().sort().to_list()
    pairs = compared(table, "d", high, low, value="value", on=["cosine", "seed"])
    return verdict(
        pairs, "difference", between=(-0.1, 0.1), note=f"effect: Spearman in {high} less in {low} dimensions"
    )


@CLAIMS.add(
    "R-l.data",
    "Over data sets, the order is followed the more, the more nearly orthogonal their samples are.",
    _PLACE,
    parts=("main", "dlbcl", "autism", "mnist"),
    figure="order-by-data",
)
def over_data_sets(frame: polars.DataFrame) -> Finding:
    """Per seed the Spearman correlation over data sets of near-orthogonality with how far the order is followed."""
    found = rank_correlation(orders_by_data(frame), "near", "value", by=["seed"])
    note = "effect: Spearman of min‖x‖²/(n max|⟨x, x′⟩|) and how far the order is followed, over data sets (ReLU)"
    return verdict(found, above=0.0, within=CORRELATION, note=note)


def orders_by_data(frame: polars.DataFrame) -> polars.DataFrame:
    """Data set, its number for near-orthogonality, seed, and how far the order is followed."""
    numbers = {"main": ("mixture", _MIXTURE), **{name: (name, value) for name, value in MEASURED.items()}}
    tables = []
    for (part,), own in frame.group_by("part", maintain_order=True):
        data, near = numbers[str(part)]
        order = starts_order(ends(own, "relu")).with_columns(data=polars.lit(data), near=polars.lit(near))
        tables.append(order)
    if len(tables) < 3:
        raise InputError("fewer than three data sets are here: fetch them first")
    return polars.concat(tables)
