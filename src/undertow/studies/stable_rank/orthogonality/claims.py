"""R-l: whether the order of the stable ranks follows that of the starts exactly when the data are nearly orthogonal."""

from __future__ import annotations

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import CORRELATION, Finding
from undertow.studies.kit.per_seed import by_value, rank_correlation, verdict
from undertow.studies.kit.readings import after_training, compared
from undertow.studies.kit.statements import Claims
from undertow.studies.stable_rank.orthogonality.nearness import NUMBERS, Sense, nearness
from undertow.studies.stable_rank.rank_tables import SOURCE, by_start, ends, starts_order

__all__ = ["CLAIMS", "DATA_PARTS", "orders", "orders_by_data", "turning_cosine"]

CLAIMS = Claims(SOURCE, parts=("cosines",), figure="order-by-cosine")
DATA_PARTS = ("main", "dlbcl", "autism", "mnist")
_PLACE = "Interesting Findings"
_FOLLOWED = 0.9
"""Spearman of five starts from which on the order counts as followed: one pair of neighbours exchanged."""
_ALL_DATA: tuple[str, ...] = (*DATA_PARTS, "fashion-mnist", "cifar10")
_NORMALISED = (
    "numbers of pictures are those of the normalised points since a look; at paper scale Fashion-MNIST and CIFAR-10 "
    "have changed places by it"
)
_COSINES_SEEN = "the orders on all data sets were known when the mean |cosine| was asked about"
_FEATURES_SEEN = "the orders on four of the data sets were known when the sense of features was chosen"


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
    turn = turning_cosine(table)
    where = "nowhere" if turn is None else f"from a cosine of {turn:g} on"
    note = (
        "effect: Spearman of cosine and how far the order is followed",
        f"the median seed's order is below {_FOLLOWED:g} {where}",
    )
    return verdict(found.with_columns(value=value), below=0.0, within=CORRELATION, note=note)


def turning_cosine(table: polars.DataFrame) -> float | None:
    """Where the change is: the smallest cosine from which on the median seed's ``value`` stays below 0.9.

    >>> falling = polars.DataFrame({"cosine": [0.0, 0.1, 0.5, 0.9], "value": [1.0, 0.8, 0.95, 0.7]})
    >>> turning_cosine(falling), turning_cosine(falling.head(1))
    (0.9, None)
    """
    medians = table.group_by("cosine").agg(polars.col("value").median()).sort("cosine", descending=True)
    turn = None
    for cosine, value in medians.iter_rows():
        if value >= _FOLLOWED:
            break
        turn = float(cosine)
    return turn


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


_MORE = "Over data sets, the order is followed the more,"


@CLAIMS.add(
    "R-l.data",
    f"{_MORE} the more nearly orthogonal their samples are.",
    _PLACE,
    parts=DATA_PARTS,
    figure="order-by-data",
    sense="samples",
)
@CLAIMS.add(
    "R-l.data-all",
    f"{_MORE} the more nearly orthogonal their samples are (with Fashion-MNIST and CIFAR-10).",
    _PLACE,
    parts=_ALL_DATA,
    figure="order-by-data",
    hindsight=_NORMALISED,
    sense="samples",
)
@CLAIMS.add(
    "R-l.data-cosine",
    f"{_MORE} the smaller the mean |cosine| of two samples is.",
    _PLACE,
    parts=DATA_PARTS,
    figure="order-by-cosines-of-data",
    hindsight=_COSINES_SEEN,
    sense="cosine",
)
@CLAIMS.add(
    "R-l.data-cosine-all",
    f"{_MORE} the smaller the mean |cosine| of two samples is (with Fashion-MNIST and CIFAR-10).",
    _PLACE,
    parts=_ALL_DATA,
    figure="order-by-cosines-of-data",
    hindsight=_COSINES_SEEN,
    sense="cosine",
)
@CLAIMS.add(
    "R-l.features",
    f"{_MORE} the less their features are correlated.",
    "Low-Dimensional Orthogonal Data",
    parts=DATA_PARTS,
    figure="order-by-features",
    hindsight=_FEATURES_SEEN,
    sense="features",
)
@CLAIMS.add(
    "R-l.features-all",
    f"{_MORE} the less their features are correlated (with Fashion-MNIST and CIFAR-10).",
    "Low-Dimensional Orthogonal Data",
    parts=_ALL_DATA,
    figure="order-by-features",
    hindsight=_FEATURES_SEEN,
    sense="features",
)
def over_data_sets(frame: polars.DataFrame, sense: Sense) -> Finding:
    """Per seed the Spearman correlation over data sets of near-orthogonality with how far the order is followed."""
    table = orders_by_data(frame, sense)
    found = rank_correlation(table, "near", "value", by=["seed"])
    found = found.with_columns(polars.col("value").fill_null(0.0))  # followed equally by all
    means = table.group_by("data", maintain_order=True).agg(polars.col("value").mean())
    shown = ", ".join(f"{data}: {value:.2f}" for data, value in means.iter_rows())
    note = (
        f"effect: Spearman of {NUMBERS[sense]} and how far the order is followed, over data sets (ReLU)",
        f"followed, mean: {shown}",
    )
    return verdict(found, above=0.0, within=CORRELATION, note=note)


def orders_by_data(frame: polars.DataFrame, sense: Sense = "samples") -> polars.DataFrame:
    """Data set, its number for near-orthogonality, seed, and how far the order is followed; seeds that all have."""
    tables = []
    scale = str(frame["scale"][0]) if "scale" in frame.columns else ""
    for (part,), own in frame.group_by("part", maintain_order=True):
        name, near = str(part), nearness(str(part), sense, scale)
        order = starts_order(ends(own, "relu"))
        named = {"data": "mixture" if name == "main" else name, "near": near}
        tables.append(order.with_columns(**{key: polars.lit(value) for key, value in named.items()}))
    if len(tables) < 3:
        raise InputError("fewer than three data sets are here: fetch them first")
    whole = polars.concat(tables)
    # CIFAR-10 has six seeds, the others ten or twenty: a seed is judged over all data sets.
    return whole.filter(polars.col("data").n_unique().over("seed") == len(tables))
