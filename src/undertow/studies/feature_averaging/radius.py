"""How robust are averaged features? Radii by size (claims F-f, F-g and F-i).

Radii are distances to the nearest point that is decided wrongly, a tie included, on new points of the distribution.
They come from three sides: proved by linear bounds, solved exactly for some of the points, and found by attack, of
which the averaged direction −Σμ_+ + Σμ_− is one. "Beyond Ω(√(d/k))" is read as: at twice √(d/k).
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from undertow.core.errors import InputError
from undertow.studies.feature_averaging.sizes import (
    SEEN,
    by_seed,
    exponents,
    in_every_part,
    largest,
    most,
    networks,
)
from undertow.studies.feature_averaging.synthetic import BY_CLUSTERS, BY_DIMENSION, THRESHOLD
from undertow.studies.kit.claim import POSITIVE, SHARE, Claim, Finding, decide
from undertow.studies.kit.study import Figure

if TYPE_CHECKING:
    import polars

__all__ = ["CLAIMS", "FIGURES", "exponent_note", "provable", "radii", "share_proved"]

_THEOREM = "Li, Pan, Lyu & Li 2025, slides: Averaged Features are Non-robust Features"
_BY_D = tuple(BY_DIMENSION)
_BY_K = tuple(f"averaging-{count}" for count in BY_CLUSTERS)


def radii(frame: polars.DataFrame) -> polars.DataFrame:
    """Every network's readings of the radius, with mean radii in units of length (``attacked`` and so on times √d)."""
    import polars

    table = networks(frame, "cluster-radius")
    sides = [
        name
        for name in ("certified", "attacked", "averaged", "exact", "native:attacked")
        if name in table.columns
    ]
    return table.with_columns(
        (polars.col(side) * polars.col("d").sqrt()).alias(f"{side} length") for side in sides
    )


def provable(table: polars.DataFrame, *, optimal: bool = False) -> polars.DataFrame:
    """Of the f_robust networks those with threshold 1/2, whose radius linear bounds prove, or the ``optimal`` ones."""
    import polars

    return table.filter((polars.col("threshold") - (THRESHOLD if optimal else 0.5)).abs() < 1e-9)


def share_proved(table: polars.DataFrame) -> float:
    """The share of points with a proof behind their certified radius; records without it are of two-layer networks."""
    known = table["proved"].drop_nulls().to_list() if "proved" in table.columns else []
    return statistics.fmean(known) if known else 1.0


def collapse(frame: polars.DataFrame) -> Finding:
    """Per seed the share that no attack broke within 2√(d/k), the largest over sizes, against 0.05."""
    table = in_every_part(networks(frame, "cluster-radius"))
    note = f"effect: robust accuracy at 2√(d/k), the largest over all d and k; {_clean(table)}"
    return decide(by_seed(table, "attacked@reach"), below=0.05, within=SHARE, note=note)


def radius_by_k(frame: polars.DataFrame) -> Finding:
    """Per seed the exponent in k of the mean attacked radius, against −0.4; √(d/k) has −0.5."""
    table = radii(frame)
    return decide(
        exponents(table, "k", "attacked"), below=-0.4, note=exponent_note(table, "attacked length", "k", -0.5)
    )


def radius_by_d(frame: polars.DataFrame) -> Finding:
    """Per seed the exponent in d of the mean attacked radius, against 0.6; √(d/k) has 0.5."""
    table = radii(frame)
    slopes = exponents(table, "d", "attacked length")
    return decide(slopes, below=0.6, note=exponent_note(table, "attacked length", "d", 0.5))


def other_biases(frame: polars.DataFrame, key: str, what: str) -> Finding:
    """Per seed the best robust accuracy at 2.5√(d/k) over biases, at the largest k, against 0.05."""
    table = largest(networks(frame, "bias-search"), "k")
    found = table["radius"].drop_nulls().to_list() if "radius" in table.columns else []
    reach = f"{statistics.fmean(found):.2f}√(d/k)" if found else "unknown: no choice was accurate"
    note = (
        f"effect: best robust accuracy at 2.5√(d/k) against the averaged direction over {what}, "
        f"k = {most(table, 'k')}; the best mean radius of an accurate choice is {reach}"
    )
    return decide(by_seed(table, key), below=0.05, within=SHARE, note=note)


def direction_succeeds(frame: polars.DataFrame) -> Finding:
    """Per seed the share that survives the averaged direction at 2√(d/k), the largest over sizes, against 0.05."""
    table = in_every_part(networks(frame, "cluster-radius"))
    note = (
        "effect: share that −Σμ_+ + Σμ_− of length 2√(d/k) does not break, the largest over all d and k; "
        f"{_clean(table)}"
    )
    return decide(by_seed(table, "averaged@reach"), below=0.05, within=SHARE, note=note)


def direction_optimal(frame: polars.DataFrame) -> Finding:
    """Per seed the mean radius along the averaged direction over the exact mean radius at the largest d."""
    import polars

    table = largest(networks(frame, "cluster-radius"), "d")
    if "exact" not in table.columns:
        raise InputError("no exact radius was computed")
    ratio = table.with_columns(ratio=polars.col("averaged") / polars.col("exact"))
    means = [
        statistics.fmean(table[side].to_list()) for side in ("certified", "exact", "attacked", "averaged")
    ]
    means.insert(1, 100 * share_proved(table))
    note = (
        f"effect: radius along −Σμ_+ + Σμ_− / exact radius at d = {most(table, 'd')}; in units of √d "
        "certified ≥ {:.3f} ({:.0f} % proved), exact {:.3f}, best attack ≤ {:.3f}, averaged direction {:.3f}".format(
            *means
        )
    )
    return decide(by_seed(ratio, "ratio"), below=1.15, within=POSITIVE, note=note)


def _clean(table: polars.DataFrame) -> str:
    """Errors are not robust either: how many there are tells what the attack has to answer for."""
    return f"before any attack {min(by_seed(table, 'accuracy', 'min')):.3g} or more"


def exponent_note(table: polars.DataFrame, key: str, axis: str, claimed: float) -> str:
    import polars

    means = table.group_by(axis).agg(polars.col(key).mean()).sort(axis)
    values = ", ".join(f"{value:.3g} at {size}" for size, value in means.iter_rows())
    return f"effect: exponent of the mean radius in {axis}, claimed {claimed:g}; radius by {axis}: {values}"


def _draw(name: str) -> Any:
    """Figures live in their own module, which needs altair only when it draws."""

    def draw(frame: polars.DataFrame) -> Any:
        from undertow.studies.feature_averaging import pictures

        return getattr(pictures, name)(frame)

    return draw


FIGURES = (
    Figure(
        "robust-accuracy",
        "Robust accuracy against ε: averaged and decoupled features, and f_robust",
        _draw("robust_accuracy"),
        parts=("averaging", "decoupling", "robust-by-d"),
    ),
    Figure(
        "radius-by-d",
        "Radius by dimension, with √(d/k) and half the distance between centres",
        _draw("radius_by_d"),
        parts=(*_BY_D, "robust-by-d"),
    ),
    Figure(
        "radius-by-k",
        "Radius by number of clusters",
        _draw("radius_by_k"),
        parts=(*_BY_K, *(f"decoupling-{count}" for count in BY_CLUSTERS), "robust-by-k"),
    ),
    Figure("between", "From decoupled to averaged features", _draw("between"), parts=("between",)),
)
CLAIMS = (
    Claim(
        "F-f",
        "Robust accuracy is nearly zero beyond Ω(√(d/k)).",
        _THEOREM,
        collapse,
        parts=(*_BY_D, *_BY_K),
        figure="robust-accuracy",
        hindsight=SEEN,
    ),
    Claim(
        "F-f.k",
        "The radius falls with the number of clusters at least as fast as √(d/k).",
        _THEOREM,
        radius_by_k,
        parts=_BY_K,
        figure="radius-by-k",
        hindsight=SEEN,
    ),
    Claim(
        "F-f.d",
        "The radius grows with the dimension no faster than √(d/k).",
        _THEOREM,
        radius_by_d,
        parts=_BY_D,
        figure="radius-by-d",
        check="centres are √d long, so that a classifier of any fixed geometry has the exponent 1/2, f_robust's too",
    ),
    Claim(
        "F-g",
        "The same for any choice of biases that keeps the network accurate.",
        f"{_THEOREM} (for any choice of bias)",
        lambda frame: other_biases(frame, "robust", "biases with 90 % accuracy or more"),
        parts=_BY_K,
        hindsight=SEEN,
    ),
    Claim(
        "F-g.literal",
        "The same for any choice of biases whatever.",
        f"{_THEOREM} (for any choice of bias)",
        lambda frame: other_biases(frame, "robust_any", "all biases, constants included"),
        parts=_BY_K,
        hindsight=SEEN,
    ),
    Claim(
        "F-i",
        "The direction −Σμ_+ + Σμ_− attacks successfully.",
        _THEOREM,
        direction_succeeds,
        parts=(*_BY_D, *_BY_K),
        figure="radius-by-d",
        hindsight=SEEN,
    ),
    Claim(
        "F-i.optimal",
        "The direction −Σμ_+ + Σμ_− is nearly the best attack (within 15 %).",
        f"{_THEOREM}, the attack can be chosen so",
        direction_optimal,
        parts=("averaging",),
        figure="radius-by-d",
        hindsight=SEEN,
    ),
)
