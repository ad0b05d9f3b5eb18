"""Claims about Figure 1a and 1b: energy and robust accuracy over the grid, and the part of width (§4, §6.1).

Robust accuracy never exceeds accuracy, so networks that learned little look fragile whatever their energy: the
claims are tested on all networks that learned, within one width, and on pairs of equal accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from undertow.core.errors import InputError
from undertow.studies.co_correlation.evidence import by_value, rank_correlation, verdict
from undertow.studies.co_correlation.grid import chosen, learned, outcomes
from undertow.studies.co_correlation.setting import PAPER, data_names
from undertow.studies.kit.claim import CORRELATION, Claim, Finding

if TYPE_CHECKING:
    import polars

__all__ = ["CLAIMS", "MATCHED", "candidates", "matched_pairs"]

MATCHED = 0.02
"""Accuracies that differ by no more than this count as equal."""


def candidates(frame: polars.DataFrame, activation: str = "relu") -> tuple[polars.DataFrame, str]:
    """The networks that learned something, and a phrase that says how many did not."""
    table = chosen(outcomes(frame), activation=activation)
    if table["robust"].null_count() == len(table):
        raise InputError("no record of robust accuracy")
    rest = learned(table, frame["variant"][0])
    if 2 * len(rest) < len(table):
        raise InputError(
            f"{len(table) - len(rest)} of {len(table)} networks are not a tenth above chance: what attacks leave of "
            "such accuracies says nothing"
        )
    return (
        rest,
        f"{len(table) - len(rest)} of {len(table)} networks near chance left out; {data_names(frame)}",
    )


def over_the_grid(frame: polars.DataFrame) -> Finding:
    """Per seed Spearman's correlation of S(f) and robust accuracy over width × q."""
    table, phrase = candidates(frame)
    ranks = rank_correlation(table, "energy", "robust", by=["seed"])
    note = f"effect: Spearman of S(f) and robust accuracy; {phrase}"
    return verdict(ranks, below=0.0, within=CORRELATION, note=note)


def within_width(frame: polars.DataFrame) -> Finding:
    """Per seed the mean over widths of Spearman's correlation along q."""
    table, phrase = candidates(frame)
    ranks = rank_correlation(table, "energy", "robust", by=["seed", "width"])
    if ranks["value"].drop_nulls().is_empty():
        raise InputError("no width has three networks that learned")
    note = f"effect: Spearman of S(f) and robust accuracy at one width; by width {by_value(ranks, 'width')}; {phrase}"
    return verdict(ranks, below=0.0, within=CORRELATION, note=note)


def matched_pairs(table: polars.DataFrame, *, same: tuple[str, ...] = ("seed",)) -> polars.DataFrame:
    """Pairs of networks of one seed (and equal in ``same``) whose accuracies differ by at most ``MATCHED``.

    Columns of the second network end in ``_b``. Each pair comes once.
    """
    import polars

    numbered = table.with_row_index("index")
    return numbered.join(numbered, on=list(same), suffix="_b").filter(
        (polars.col("index") < polars.col("index_b"))
        & ((polars.col("accuracy") - polars.col("accuracy_b")).abs() <= MATCHED)
    )


def _of_every_seed(pairs: polars.DataFrame, frame: polars.DataFrame) -> polars.DataFrame:
    """The pairs, and a row without a value for a seed that has none: leaving it out would select seeds."""
    return frame.select("seed").unique().join(pairs, on="seed", how="left")


def matched(frame: polars.DataFrame) -> Finding:
    """Per seed over accuracy-matched pairs: +1 where the lower energy is more robust, -1 where less, 0 for ties."""
    import polars

    table, phrase = candidates(frame)
    pairs = matched_pairs(table).with_columns(
        value=(
            (polars.col("energy") - polars.col("energy_b")).sign()
            * (polars.col("robust_b") - polars.col("robust")).sign()
        )
    )
    if pairs.is_empty():
        raise InputError(f"no two networks of a seed have accuracies within {MATCHED}")
    note = (
        f"effect: mean agreement over {len(pairs)} pairs of accuracy within {MATCHED} (1: always); {phrase}"
    )
    return verdict(_of_every_seed(pairs, frame), above=0.0, within=CORRELATION, note=note)


def wider(frame: polars.DataFrame) -> Finding:
    """Per seed the mean over q of Spearman's correlation of width and robust accuracy."""
    table, phrase = candidates(frame)
    ranks = rank_correlation(table, "width", "robust", by=["seed", "q"])
    if ranks["value"].drop_nulls().is_empty():
        raise InputError("no q has three widths that learned")
    note = (
        f"effect: Spearman of width and robust accuracy at the same q; by q {by_value(ranks, 'q')}; {phrase}"
    )
    return verdict(ranks, above=0.0, within=CORRELATION, note=note)


def wider_matched(frame: polars.DataFrame) -> Finding:
    """Per seed over accuracy-matched pairs of one q: +1 where the wider network is more robust, -1 where less."""
    import polars

    table, phrase = candidates(frame)
    pairs = matched_pairs(table, same=("seed", "q")).with_columns(
        value=(
            (polars.col("width") - polars.col("width_b")).sign()
            * (polars.col("robust") - polars.col("robust_b")).sign()
        ).cast(polars.Float64)
    )
    if pairs.is_empty():
        raise InputError(f"no two networks of one seed and q have accuracies within {MATCHED}")
    note = f"effect: mean agreement over {len(pairs)} pairs of one q, accuracy within {MATCHED} (1: always); {phrase}"
    return verdict(_of_every_seed(pairs, frame), above=0.0, within=CORRELATION, note=note)


def _claim(id: str, text: str, place: str, test: Callable[[polars.DataFrame], Finding]) -> Claim:
    return Claim(id, text, f"{PAPER}, {place}", test, parts=("grid",), figure="fig-1a")


_ENERGY, _WIDTH = "§4, §6.1 and Fig 1a, 1b", "§6.1 and Fig 1a"
CLAIMS = (
    _claim("C-a.grid", "ReLU networks with lower S(f) have higher robust accuracy.", _ENERGY, over_the_grid),
    _claim("C-a.within-width", "The same among networks of one width, along q.", _ENERGY, within_width),
    _claim("C-a.matched", "The same among networks of equal accuracy.", _ENERGY, matched),
    _claim("C-r", "Wider ReLU networks are more robust at the same q.", _WIDTH, wider),
    _claim("C-r.matched", "The same among networks of equal accuracy.", _WIDTH, wider_matched),
)
