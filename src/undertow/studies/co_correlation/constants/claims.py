"""C-v and C-w: the energy S(f) goes with robust accuracy more closely than other numbers that are said to do so."""

from __future__ import annotations

import polars

from undertow.core.errors import InputError
from undertow.studies.co_correlation.setting import EPS, PAPER, chance
from undertow.studies.kit.claim import Finding
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.per_seed import mean, rank_correlation, verdict
from undertow.studies.kit.readings import after_training, measured
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "NUMBERS", "learned"]

CLAIMS = Claims(PAPER, parts=("constants",), figure="constants")
NUMBERS = {
    "energy": "S(f)",
    "largest": "largest ‖J‖ over the points",
    "product": "product of the layers' norms",
    "loss_energy": "S(L∘f)",
}
"""What is compared, and how it is written."""


def learned(frame: polars.DataFrame) -> polars.DataFrame:
    """A row for each network a tenth above chance: width, q, seed, the four numbers, accuracy and robust accuracy."""
    network = ["width", "q", "seed"]
    numbers = after_training(frame, "steepness").pivot(
        "key", index=network, values="value", aggregate_function="last"
    )
    clean = measured(after_training(frame, "accuracy"), "accuracy")
    robust = measured(after_training(frame, "robust-accuracy", repr(EPS)), "robust-accuracy")
    for name, rows in (("accuracy", clean), ("robust", robust)):
        own = rows.group_by(network).agg(polars.col("value").last().alias(name))
        numbers = numbers.join(own, on=network)
    rest = numbers.filter(polars.col("accuracy") >= chance(frame["variant"][0]) + 0.1)
    if 2 * len(rest) < len(numbers):
        raise InputError(
            f"{len(numbers) - len(rest)} of {len(numbers)} networks are not a tenth above chance: what attacks leave "
            "of such accuracies says nothing"
        )
    return rest.sort(network)


@CLAIMS.add(
    "C-v.product",
    "The energy S(f) goes with robust accuracy more closely than the product of the layers' norms does.",
    "§3.3",
    other="product",
)
@CLAIMS.add(
    "C-v.largest",
    "The energy S(f) goes with robust accuracy more closely than the largest ‖J‖ over the points does.",
    "§3.3",
    other="largest",
)
@CLAIMS.add(
    "C-w",
    "The energy S(f) of the network goes with robust accuracy more closely than that of its loss, S(L∘f).",
    "§4",
    other="loss_energy",
)
def goes_more_closely(frame: polars.DataFrame, other: str) -> Finding:
    """Per seed Spearman's correlation of robust accuracy with the other number less that with S(f), over width × q."""
    table = learned(frame)
    ranks = {name: rank_correlation(table, name, "robust", by=["seed"]) for name in NUMBERS}
    both = ranks["energy"].join(ranks[other], on="seed", suffix="_other")
    note = (
        f"effect: Spearman of {NUMBERS[other]} and robust accuracy less that of S(f): above 0 where S(f) falls more "
        "closely as robust accuracy rises",
        ", ".join(f"{NUMBERS[name]} {mean(own['value']):+.2f}" for name, own in ranks.items() if _known(own)),
        on_data(frame),
    )
    return verdict(
        both.select("seed", value=polars.col("value_other") - polars.col("value")),
        above=0.0,
        within=(-2.0, 2.0),
        note=note,
    )


def _known(ranks: polars.DataFrame) -> bool:
    return ranks["value"].null_count() < len(ranks)
