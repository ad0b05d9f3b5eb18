"""F-f … F-j: radii of averaged features and of f_robust, by size; biases; the averaged direction; gradients.

Radii are distances to the nearest point that is decided wrongly, a tie included, on new points of the distribution.
They come from three sides: proved by linear bounds, solved exactly for some of the points, and found by attack, of
which the averaged direction −Σμ_+ + Σμ_− is one. "Beyond Ω(√(d/k))" is read as: at twice √(d/k).
"""

from __future__ import annotations

from math import nan
from typing import Any

import polars

from undertow.core.errors import InputError
from undertow.studies.feature_averaging.cluster_grids import BY_CLUSTERS, BY_DIMENSION
from undertow.studies.feature_averaging.cluster_tables import (
    SEEN,
    at_paper_size,
    in_every_part,
    most,
    networks,
    provable,
    radii,
    radius_by,
    share_proved,
)
from undertow.studies.kit.claim import POSITIVE, SHARE, Finding, decide
from undertow.studies.kit.per_seed import exponents, mean, per_seed, verdict
from undertow.studies.kit.readings import compared, largest
from undertow.studies.kit.statements import Claims, PublishedNumbers

__all__ = ["CLAIMS", "PUBLISHED"]

_SLIDES = "Li, Pan, Lyu & Li 2025, slides"
_THEOREM = f"{_SLIDES}: Averaged Features are Non-robust Features"
_BUILT = "f_robust is built and not trained: its radius follows from how, and the certificate must agree"
_BY_D = tuple(BY_DIMENSION)
_BY_K = tuple(f"averaging-{count}" for count in BY_CLUSTERS)

CLAIMS = Claims(_THEOREM, hindsight=SEEN)
PUBLISHED = PublishedNumbers(_SLIDES)


@PUBLISHED.add(
    "radius of averaged features, √(d/k) at d = 3072, k = 10",
    "17.5",
    "Averaged Features are Non-robust Features",
    parts=["averaging"],
    built=False,
)
@PUBLISHED.add(
    "radius of f_robust, half the distance between centres at d = 3072",
    "39.2",
    "There Exists the Robust Solution",
    parts=["robust-by-d"],
    built=True,
)
def attacked_length(frame: polars.DataFrame, *, built: bool) -> list[float]:
    """Per seed the mean radius that the best attack finds; of f_robust with the optimal threshold."""
    table = at_paper_size(radii(frame))
    return (provable(table, optimal=True) if built else table)["attacked length"].to_list()


@CLAIMS.add(
    "F-f",
    "Robust accuracy is nearly zero beyond Ω(√(d/k)).",
    parts=[*_BY_D, *_BY_K],
    figure="robust-accuracy",
    key="attacked@reach",
    what="robust accuracy at 2√(d/k)",
)
@CLAIMS.add(
    "F-i",
    "The direction −Σμ_+ + Σμ_− attacks successfully.",
    parts=[*_BY_D, *_BY_K],
    figure="radius-by-d",
    key="averaged@reach",
    what="share that −Σμ_+ + Σμ_− of length 2√(d/k) does not break",
)
def collapse(frame: polars.DataFrame, key: str, what: str) -> Finding:
    """Per seed the share that survives an attack within 2√(d/k), the largest over sizes, against 0.05.

    Errors are not robust either: how many there are tells what the attack has to answer for.
    """
    table = in_every_part(networks(frame, "cluster-radius"))
    clean = min((each for each in per_seed(table, "accuracy", "min") if each is not None), default=nan)
    note = f"effect: {what}, the largest over all d and k; before any attack {clean:.3g} or more"
    return verdict(table, key, over="max", below=0.05, within=SHARE, note=note)


@CLAIMS.add(
    "F-f.k",
    "The radius falls with the number of clusters at least as fast as √(d/k).",
    parts=_BY_K,
    figure="radius-by-k",
    axis="k",
    claimed=-0.5,
    below=-0.4,
)
@CLAIMS.add(
    "F-f.d",
    "The radius grows with the dimension no faster than √(d/k).",
    parts=_BY_D,
    figure="radius-by-d",
    check="centres are √d long, so that a classifier of any fixed geometry has the exponent 1/2, f_robust's too",
    axis="d",
    claimed=0.5,
    below=0.6,
)
@CLAIMS.add(
    "F-h.d",
    "f_robust's radius grows with the dimension as √d.",
    source=f"{_SLIDES}: There Exists the Robust Solution",
    parts=["robust-by-d"],
    figure="radius-by-d",
    check=_BUILT,
    axis="d",
    claimed=0.5,
    above=0.45,
    built=True,
)
@CLAIMS.add(
    "F-h.k",
    "f_robust's radius does not depend on the number of clusters.",
    source=f"{_SLIDES}: There Exists the Robust Solution",
    parts=["robust-by-k"],
    figure="radius-by-k",
    check=_BUILT,
    axis="k",
    claimed=0.0,
    above=-0.1,
    built=True,
)
def radius_exponent(
    frame: polars.DataFrame, axis: str, claimed: float, *, built: bool = False, **line: Any
) -> Finding:
    """Per seed the exponent of the mean attacked radius in d or k, or of f_robust's proved one, against a line."""
    table, side = (provable(radii(frame)), "certified") if built else (radii(frame), "attacked")
    key = f"{side} length" if axis == "d" else side  # in one dimension lengths have one unit
    told = f"claimed {claimed:g}; {radius_by(table, axis, side)}"
    note = f"effect: exponent of the mean radius in {axis}, {told}"
    return decide(exponents(table, axis, key), note=note, **line)


@CLAIMS.add(
    "F-g",
    "The same for any choice of biases that keeps the network accurate.",
    source=f"{_THEOREM} (for any choice of bias)",
    parts=_BY_K,
    key="robust",
    what="biases with 90 % accuracy or more",
)
@CLAIMS.add(
    "F-g.literal",
    "The same for any choice of biases whatever.",
    source=f"{_THEOREM} (for any choice of bias)",
    parts=_BY_K,
    key="robust_any",
    what="all biases, constants included",
)
def other_biases(frame: polars.DataFrame, key: str, what: str) -> Finding:
    """Per seed the best robust accuracy at 2.5√(d/k) over biases, at the largest k, against 0.05."""
    table = largest(networks(frame, "bias-search"), "k")
    if key not in table.columns:
        raise InputError(f"no record of {key}: no choice of biases was accurate")
    found = table["radius"].drop_nulls() if "radius" in table.columns else polars.Series()
    reach = "unknown: no choice was accurate" if found.is_empty() else f"{mean(found):.2f}√(d/k)"
    note = (
        f"effect: best robust accuracy at 2.5√(d/k) against the averaged direction over {what}, "
        f"k = {most(table, 'k')}; the best mean radius of an accurate choice is {reach}"
    )
    # A network without any accurate choice is no evidence for what holds of accurate ones.
    return verdict(table.drop_nulls(key), key, over="max", below=0.05, within=SHARE, note=note)


@CLAIMS.add(
    "F-i.optimal",
    "The direction −Σμ_+ + Σμ_− is nearly the best attack (within 15 %).",
    "the attack can be chosen so",
    parts=["averaging"],
    figure="radius-by-d",
)
def direction_optimal(frame: polars.DataFrame) -> Finding:
    """Per seed the mean radius along the averaged direction over the exact mean radius at the largest d."""
    table = largest(networks(frame, "cluster-radius"), "d")
    if "exact" not in table.columns:
        raise InputError("no exact radius was computed")
    ratio = table.with_columns(ratio=polars.col("averaged") / polars.col("exact"))
    certified, exact, attacked, averaged = (
        f"{mean(table[side]):.3f}" for side in ("certified", "exact", "attacked", "averaged")
    )
    note = (
        f"effect: radius along −Σμ_+ + Σμ_− / exact radius at d = {most(table, 'd')}; in units of √d "
        f"certified ≥ {certified} ({100 * share_proved(table):.0f} % proved), exact {exact}, "
        f"best attack ≤ {attacked}, averaged direction {averaged}"
    )
    return verdict(ratio, "ratio", over="max", below=1.15, within=POSITIVE, note=note)


@CLAIMS.add(
    "F-h",
    "A robust network with radius Θ(√d) exists.",
    source=f"{_SLIDES}: There Exists the Robust Solution",
    parts=["robust-by-d", "robust-by-k"],
    figure="robust-accuracy",
    check=_BUILT,
)
def robust_exists(frame: polars.DataFrame) -> Finding:
    """Per seed the smallest mean certified radius of f_robust over sizes, in units of √d, against 0.4."""
    table, best = provable(radii(frame)), provable(radii(frame), optimal=True)
    note = (
        f"effect: proved radius/√d of f_robust with threshold 1/2 ({100 * share_proved(table):.0f} % of the points "
        "proved), the smallest over all d and k; "
        f"with the optimal threshold the best attack needs {mean(best['attacked']):.3f}√d "
        "(half the distance between centres is 0.707√d)"
    )
    return verdict(table, "certified", over="min", above=0.4, note=note)


@CLAIMS.add(
    "F-j",
    "Averaged features have larger gradients at equal margin than the robust solution.",
    source="Li 2024, talk: Average Features are Non-robust Features, intuition",
    parts=["averaging", "robust-by-d"],
    hindsight="",
    other="robust-by-d",
)
@CLAIMS.add(
    "F-j.decoupled",
    "Averaged features have larger gradients at equal margin than decoupled ones.",
    source="Li 2024, talk: Average Features are Non-robust Features, intuition",
    parts=["averaging", "decoupling"],
    hindsight="",
    other="decoupling",
)
def larger_gradients(frame: polars.DataFrame, other: str) -> Finding:
    """Per seed ‖∇f‖/f of the trained network over that of another one, at the same d and k, against 1."""
    table = networks(frame, "cluster-radius")
    trained = largest(table.filter(polars.col("part") == "averaging"), "d")
    d, k = most(trained, "d"), most(trained, "k")
    rest = table.filter(polars.col("part") == other, polars.col("d") == d, polars.col("k") == k)
    if other == "robust-by-d":
        rest = provable(rest, optimal=True)
    both = compared(
        polars.concat([trained, rest]), "part", "averaging", other, value="steepness", on=["seed"]
    )
    note = (
        f"effect: ratio of mean ‖∇f‖/f at d = {d}, k = {k}; averaging over k/2 features predicts a ratio ∝ √k"
    )
    return verdict(both, "ratio", above=1.0, within=POSITIVE, note=note)
