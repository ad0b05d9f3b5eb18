"""The claims about what became of each network: energy and robust accuracy (Figure 1), accuracy and ϱ (Figure 4).

Robust accuracy never exceeds accuracy, so networks that learned little look fragile whatever their energy: the
claims are tested on all networks that learned, within one width, and on pairs of equal accuracy.
"""

from __future__ import annotations

import polars

from undertow.core.errors import InputError
from undertow.studies.co_correlation.outcomes import NARROW, chosen, outcomes
from undertow.studies.co_correlation.setting import PAPER, chance
from undertow.studies.kit.claim import CORRELATION, SHARE, Finding
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.per_seed import by_value, per_seed, rank_correlation, verdict
from undertow.studies.kit.readings import largest
from undertow.studies.kit.statements import Claims, PublishedNumbers

__all__ = ["CLAIMS", "MATCHED", "PUBLISHED", "matched_pairs"]

MATCHED = 0.02
"""Accuracies that differ by no more than this count as equal."""
CLAIMS = Claims(PAPER, parts=("grid",), figure="fig-1a")
PUBLISHED = PublishedNumbers(PAPER, parts=("grid",))
_ENERGY, _WIDTH, _ALONG_Q = "§4, §6.1 and Fig 1a, 1b", "§6.1 and Fig 1a", "§6.2 and Fig 4c, 4d"
_WIDE = 2048
"""Wide networks, where the grid reaches so far; else the widest of the grid stand in for them."""


def candidates(frame: polars.DataFrame) -> tuple[polars.DataFrame, str]:
    """The ReLU networks that learned something, and a phrase that says how many did not.

    One that calls everything by the same name is untouched by any attack: its robust accuracy says nothing. Learned
    is a tenth above chance or better.
    """
    table = chosen(outcomes(frame), activation="relu")
    if table["robust"].null_count() == len(table):
        raise InputError("no record of robust accuracy")
    learned = polars.col("accuracy") >= chance(frame["variant"][0]) + 0.1
    rest = table.filter(learned & polars.col("robust").is_not_null())
    left_out = f"{len(table) - len(rest)} of {len(table)} networks"
    if 2 * len(rest) < len(table):
        raise InputError(
            f"{left_out} are not a tenth above chance: what attacks leave of such accuracies says nothing"
        )
    return rest, f"{left_out} near chance left out; {on_data(frame)}"


@CLAIMS.add("C-a.grid", "ReLU networks with lower S(f) have higher robust accuracy.", _ENERGY)
def over_the_grid(frame: polars.DataFrame) -> Finding:
    """Per seed Spearman's correlation of S(f) and robust accuracy over width × q."""
    table, phrase = candidates(frame)
    ranks = rank_correlation(table, "energy", "robust", by=["seed"])
    note = f"effect: Spearman of S(f) and robust accuracy; {phrase}"
    return verdict(ranks, below=0.0, within=CORRELATION, note=note)


@CLAIMS.add("C-a.within-width", "The same among networks of one width, along q.", _ENERGY)
def within_width(frame: polars.DataFrame) -> Finding:
    """Per seed the mean over widths of Spearman's correlation along q."""
    table, phrase = candidates(frame)
    ranks = rank_correlation(table, "energy", "robust", by=["seed", "width"])
    if ranks["value"].drop_nulls().is_empty():
        raise InputError("no width has three networks that learned")
    note = f"effect: Spearman of S(f) and robust accuracy at one width; by width {by_value(ranks, 'width')}; {phrase}"
    return verdict(ranks, below=0.0, within=CORRELATION, note=note)


@CLAIMS.add("C-r", "Wider ReLU networks are more robust at the same q.", _WIDTH)
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


def matched_pairs(table: polars.DataFrame, *, same: tuple[str, ...] = ("seed",)) -> polars.DataFrame:
    """Pairs of networks of one seed (and equal in ``same``) whose accuracies differ by at most ``MATCHED``.

    Columns of the second network end in ``_b``. Each pair comes once.
    """
    numbered = table.with_row_index("index")
    return numbered.join(numbered, on=list(same), suffix="_b").filter(
        (polars.col("index") < polars.col("index_b"))
        & ((polars.col("accuracy") - polars.col("accuracy_b")).abs() <= MATCHED)
    )


_MATCHED = "The same among networks of equal accuracy."


@CLAIMS.add("C-a.matched", _MATCHED, _ENERGY, column="energy", sign=-1.0, same=("seed",))
@CLAIMS.add("C-r.matched", _MATCHED, _WIDTH, column="width", sign=1.0, same=("seed", "q"))
def matched(frame: polars.DataFrame, column: str, sign: float, same: tuple[str, ...]) -> Finding:
    """Per seed over accuracy-matched pairs: +1 where the more robust network is that with more of the column (less of
    it, for ``sign`` −1), -1 where the other is, 0 for ties."""
    table, phrase = candidates(frame)

    def order(name: str) -> polars.Expr:
        return (polars.col(name).cast(polars.Float64) - polars.col(f"{name}_b")).sign()

    pairs = matched_pairs(table, same=same).with_columns(value=sign * order(column) * order("robust"))
    at_one_q = "q" in same
    if pairs.is_empty():
        which = "of one seed and q" if at_one_q else "of a seed"
        raise InputError(f"no two networks {which} have accuracies within {MATCHED}")
    kind = "pairs of one q," if at_one_q else "pairs of"
    note = f"effect: mean agreement over {len(pairs)} {kind} accuracy within {MATCHED} (1: always); {phrase}"
    # A seed without pairs gets a row without a value: leaving it out would select seeds.
    every_seed = frame.select("seed").unique().join(pairs, on="seed", how="left")
    return verdict(every_seed, above=0.0, within=CORRELATION, note=note)


@CLAIMS.add(
    "C-p", "In wide ReLU networks accuracy falls as ϱ rises with q.", _ALONG_Q, figure="fig-4c", wide=True
)
@CLAIMS.add(
    "C-q",
    "In narrow ReLU networks better accuracy comes with a higher ϱ.",
    _ALONG_Q,
    figure="fig-4d",
    wide=False,
)
def accuracy_against_co_correlation(frame: polars.DataFrame, wide: bool) -> Finding:
    """Per seed Spearman's correlation of accuracy and ϱ along q, after training, at wide or narrow widths (ReLU)."""
    table = chosen(outcomes(frame), activation="relu")
    least = min(_WIDE, max(table["width"].to_list()))
    width = polars.col("width")
    table = table.filter(width >= least if wide else width <= NARROW)
    which = f"widths ≥ {least}" if wide else f"widths ≤ {NARROW}"
    _someone_learned(table, frame)
    means = table.group_by("q").agg(polars.col("end").mean(), polars.col("accuracy").mean()).sort("q")
    # What the paper's text quotes: ϱ and accuracy at the ends of the range of q.
    (first, rho, accuracy), (last, rho_last, accuracy_last) = means.row(0), means.row(-1)
    note = (
        f"effect: Spearman of accuracy and ϱ along q, ReLU networks of {which}",
        f"from q = {first:g} to {last:g} ϱ goes from {rho:.2f} to {rho_last:.2f} "
        f"and accuracy from {accuracy:.2f} to {accuracy_last:.2f}",
        on_data(frame),
    )
    ranks = rank_correlation(table, "end", "accuracy", by=["seed", "width"])
    below, above = (0.0, None) if wide else (None, 0.0)
    return verdict(ranks, below=below, above=above, within=CORRELATION, note=note)


@CLAIMS.add(
    "C-s.accuracy",
    "The widest network with the smallest q is the most accurate.",
    _ALONG_Q,
    figure="fig-4c",
    quality="accuracy",
)
@CLAIMS.add(
    "C-s.robust",
    "The widest network with the smallest q is the most robust.",
    _ALONG_Q,
    quality="robust",
)
def best_cell(frame: polars.DataFrame, quality: str) -> Finding:
    """Per seed the share of the other ReLU networks that beat the widest one with the smallest q."""
    table, phrase = chosen(outcomes(frame), activation="relu").drop_nulls(quality), on_data(frame)
    if table.is_empty():
        raise InputError(f"no record of {quality} accuracy")
    _someone_learned(table, frame)
    q, width = min(table["q"].to_list()), max(table["width"].to_list())
    if quality == "robust":
        table, phrase = candidates(frame)
    this, value = (polars.col("width") == width) & (polars.col("q") == q), polars.col(quality)
    with_it = table.filter(this.any().over("seed"))
    if with_it.is_empty():
        raise InputError(f"no network of width {width}, q = {q:g} has learned")
    better = (value > value.filter(this).first()).sum() / (polars.len() - 1)
    means = table.group_by("width", "q").agg(value.mean()).sort(quality, descending=True)
    best, own = means.row(0, named=True), means.filter(this)[quality][0]
    note = (
        f"effect: share of the other networks that are better than width {width}, q = {q:g} ({own:.2f} on average)",
        f"best on average: width {best['width']}, q = {best['q']:g} with {best[quality]:.2f}",
        phrase,
    )
    # 0 where it is the best; a twentieth leaves room for one better cell among twenty others or more.
    return verdict(with_it.group_by("seed").agg(value=better), below=0.051, within=SHARE, note=note)


def _someone_learned(table: polars.DataFrame, frame: polars.DataFrame) -> None:
    """Accuracies that are all chance have ranks too, of noise."""
    best = max(table["accuracy"].to_list())
    if best < chance(frame["variant"][0]) + 0.1:
        raise InputError(f"no such network is a tenth above chance: the best has accuracy {best:.2f}")


@PUBLISHED.add("ϱ of the widest ReLU networks, q = -0.15", "0.25", "§6.2 (width 8192)", column="end", q=-0.15)
@PUBLISHED.add("ϱ of the widest ReLU networks, q = 0.25", "0.83", "§6.2 (width 8192)", column="end", q=0.25)
@PUBLISHED.add("their accuracy, q = -0.15", "0.93", "§6.2 (width 8192)", column="accuracy", q=-0.15)
@PUBLISHED.add("their accuracy, q = 0.25", "0.68", "§6.2 (width 8192)", column="accuracy", q=0.25)
def widest(frame: polars.DataFrame, column: str, q: float) -> list[float | None]:
    """After training, at the largest width of the grid."""
    table = largest(chosen(outcomes(frame), activation="relu"), "width")
    return per_seed(table.filter((polars.col("q") - q).abs() < 1e-9), column)
