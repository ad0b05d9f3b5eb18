"""Figures 1a, 1b and 4: what became of each network of the grid, as heat maps over width and q.

The claims are about Figure 4: how accuracy goes with the co-correlation along q, in wide networks and in narrow ones,
and where the best network is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from undertow.core.errors import InputError
from undertow.studies.co_correlation.evidence import rank_correlation, verdict
from undertow.studies.co_correlation.grid import EPS, chosen, outcomes
from undertow.studies.co_correlation.robustness import candidates
from undertow.studies.co_correlation.setting import PAPER, chance, data_names
from undertow.studies.kit.claim import CORRELATION, SHARE, Claim, Finding
from undertow.studies.kit.study import Figure

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES"]

_WIDE = 2048
"""Wide networks, where the grid reaches so far; else the widest of the grid stand in for them."""


def accuracy_against_co_correlation(frame: polars.DataFrame, *, wide: bool) -> Finding:
    """Per seed Spearman's correlation of accuracy and ϱ along q, after training, at wide or narrow widths (ReLU)."""
    import polars

    table = chosen(outcomes(frame), activation="relu")
    width = polars.col("width")
    if wide:
        least = min(_WIDE, int(table["width"].max()))  # type: ignore[arg-type]
        table = table.filter(width >= least)
        which = f"widths ≥ {least}"
    else:
        table, which = table.filter(width <= 32), "widths ≤ 32"
    _someone_learned(table, frame)
    ranks = rank_correlation(table, "end", "accuracy", by=["seed", "width"])
    note = f"effect: Spearman of accuracy and ϱ along q, ReLU networks of {which}; {_along_q(table)}"
    line: dict[str, float] = {"below": 0.0} if wide else {"above": 0.0}
    return verdict(ranks, within=CORRELATION, note=f"{note}; {data_names(frame)}", **line)  # type: ignore[arg-type]


def best_cell(frame: polars.DataFrame, quality: str) -> Finding:
    """Per seed the share of the other ReLU networks that beat the widest one with the smallest q."""
    import polars

    table = chosen(outcomes(frame), activation="relu").drop_nulls(quality)
    if table.is_empty():
        raise InputError(f"no record of {quality} accuracy")
    _someone_learned(table, frame)
    q, width = float(table["q"].min()), int(table["width"].max())  # type: ignore[arg-type]
    phrase = data_names(frame)
    if quality == "robust":
        table, phrase = candidates(frame)
    this = (polars.col("width") == width) & (polars.col("q") == q)
    value = polars.col(quality)
    with_it = table.filter(this.any().over("seed"))
    if with_it.is_empty():
        raise InputError(f"no network of width {width}, q = {q:g} has learned")
    seeds = with_it.group_by("seed").agg(
        value=(value > value.filter(this).first()).sum() / (polars.len() - 1)
    )
    means = table.group_by("width", "q").agg(value.mean()).sort(quality, descending=True)
    best = means.row(0, named=True)
    own = means.filter(this)[quality][0]
    note = (
        f"effect: share of the other networks that are better than width {width}, q = {q:g} ({own:.2f} on average); "
        f"best on average: width {best['width']}, q = {best['q']:g} with {best[quality]:.2f}; {phrase}"
    )
    # 0 where it is the best; a twentieth leaves room for one better cell among twenty others or more.
    return verdict(seeds, below=0.051, within=SHARE, note=note)


def _someone_learned(table: polars.DataFrame, frame: polars.DataFrame) -> None:
    """Accuracies that are all chance have ranks too, of noise."""
    best, level = float(table["accuracy"].max()), chance(frame["variant"][0])  # type: ignore[arg-type]
    if best < level + 0.1:
        raise InputError(f"no such network is a tenth above chance: the best has accuracy {best:.2f}")


def _along_q(table: polars.DataFrame) -> str:
    """What the paper's text quotes: ϱ and accuracy at the ends of the range of q."""
    import polars

    means = table.group_by("q").agg(polars.col("end").mean(), polars.col("accuracy").mean()).sort("q")
    first, last = means.row(0, named=True), means.row(-1, named=True)
    return (
        f"from q = {first['q']:g} to {last['q']:g} ϱ goes from {first['end']:.2f} to {last['end']:.2f} "
        f"and accuracy from {first['accuracy']:.2f} to {last['accuracy']:.2f}"
    )


def cells(frame: polars.DataFrame, *, activation: str, value: str) -> altair.TopLevelMixin:
    """One number of every network as a heat map over width and q."""
    from undertow.drawing.heat_maps import heat_map

    names = {
        "accuracy": "accuracy on test points",
        "end": "co-correlation ϱ after training",
        "robust": f"robust accuracy, L2 attack of ε = {EPS:g} in raw pixels",
        "energy": "Dirichlet energy S(f), per unit of the network's input",
    }
    kind = {"linear": "linear networks", "relu": "ReLU networks"}[activation]
    table = chosen(outcomes(frame), activation=activation).drop_nulls(value)
    if table.is_empty():
        raise InputError(f"no record of {names[value]}")
    return heat_map(
        table,
        x="width",
        y="q",
        value=value,
        title=f"{names[value]}; {kind}, {data_names(frame)}",
        domain=None if value == "energy" else (0.0, 1.0),
        beside=tuple(name for name in ("accuracy", "end", "energy") if name != value),
    )


def _map(activation: str, value: str) -> Callable[[polars.DataFrame], altair.TopLevelMixin]:
    return lambda frame: cells(frame, activation=activation, value=value)


FIGURES = tuple(
    Figure(name, caption, _map(activation, value), parts=("grid",))
    for name, caption, activation, value in (
        ("fig-1a", "Robust accuracy of ReLU networks over width and q", "relu", "robust"),
        ("fig-1b", "Dirichlet energy S(f) of ReLU networks over width and q", "relu", "energy"),
        ("fig-4a", "Accuracy of linear networks over width and q", "linear", "accuracy"),
        ("fig-4b", "Co-correlation of linear networks over width and q, after training", "linear", "end"),
        ("fig-4c", "Accuracy of ReLU networks over width and q", "relu", "accuracy"),
        ("fig-4d", "Co-correlation of ReLU networks over width and q, after training", "relu", "end"),
    )
)


def _claim(id: str, text: str, test: Callable[[polars.DataFrame], Finding], figure: str) -> Claim:
    return Claim(id, text, f"{PAPER}, §6.2 and Fig 4c, 4d", test, parts=("grid",), figure=figure)


CLAIMS = (
    _claim(
        "C-p",
        "In wide ReLU networks accuracy falls as ϱ rises with q.",
        lambda frame: accuracy_against_co_correlation(frame, wide=True),
        "fig-4c",
    ),
    _claim(
        "C-q",
        "In narrow ReLU networks better accuracy comes with a higher ϱ.",
        lambda frame: accuracy_against_co_correlation(frame, wide=False),
        "fig-4d",
    ),
    _claim(
        "C-s.accuracy",
        "The widest network with the smallest q is the most accurate.",
        lambda frame: best_cell(frame, "accuracy"),
        "fig-4c",
    ),
    _claim(
        "C-s.robust",
        "The widest network with the smallest q is the most robust.",
        lambda frame: best_cell(frame, "robust"),
        "fig-1a",
    ),
)
