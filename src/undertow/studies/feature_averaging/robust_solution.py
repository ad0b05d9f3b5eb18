"""How robust could a network be? The constructed f_robust, and the gradients of averaged features (F-h and F-j)."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from undertow.core.errors import InputError
from undertow.studies.feature_averaging.radius import exponent_note, provable, radii, share_proved
from undertow.studies.feature_averaging.sizes import by_seed, exponents, largest, most, networks, one_per_seed
from undertow.studies.kit.claim import POSITIVE, Claim, Finding, decide

if TYPE_CHECKING:
    import polars

__all__ = ["CLAIMS"]

_BUILT = "f_robust is built and not trained: its radius follows from how, and the certificate must agree"
_ROBUST = "Li, Pan, Lyu & Li 2025, slides: There Exists the Robust Solution"


def robust_exists(frame: polars.DataFrame) -> Finding:
    """Per seed the smallest mean certified radius of f_robust over sizes, in units of √d, against 0.4."""
    table = provable(radii(frame))
    best = provable(radii(frame), optimal=True)
    note = (
        f"effect: proved radius/√d of f_robust with threshold 1/2 ({100 * share_proved(table):.0f} % of the points "
        "proved), the smallest over all d and k; "
        f"with the optimal threshold the best attack needs {statistics.fmean(best['attacked'].to_list()):.3f}√d "
        "(half the distance between centres is 0.707√d)"
    )
    return decide(by_seed(table, "certified", "min"), above=0.4, note=note)


def robust_by_d(frame: polars.DataFrame) -> Finding:
    """Per seed the exponent in d of f_robust's proved radius, against 0.45; √d has 0.5."""
    table = provable(radii(frame))
    slopes = exponents(table, "d", "certified length")
    return decide(slopes, above=0.45, note=exponent_note(table, "certified length", "d", 0.5))


def robust_by_k(frame: polars.DataFrame) -> Finding:
    """Per seed the exponent in k of f_robust's proved radius, against −0.1; √d has 0."""
    table = provable(radii(frame))
    slopes = exponents(table, "k", "certified")
    return decide(slopes, above=-0.1, note=exponent_note(table, "certified length", "k", 0.0))


def larger_gradients(frame: polars.DataFrame, *, other: str) -> Finding:
    """Per seed ‖∇f‖/f of the trained network over that of another one, at the same d and k, against 1."""
    import polars

    table = networks(frame, "cluster-radius")
    trained = largest(table.filter(polars.col("part") == "averaging"), "d")
    d, k = most(trained, "d"), most(trained, "k")
    rest = table.filter((polars.col("part") == other) & (polars.col("d") == d) & (polars.col("k") == k))
    if "threshold" in rest.columns and other != "decoupling":
        rest = provable(rest, optimal=True)
    ours, theirs = one_per_seed(trained, "steepness"), one_per_seed(rest, "steepness")
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        raise InputError("no network to compare the gradients with")
    note = (
        f"effect: ratio of mean ‖∇f‖/f at d = {d}, k = {k}; averaging over k/2 features predicts a ratio ∝ √k"
    )
    return decide([ours[seed] / theirs[seed] for seed in seeds], above=1.0, within=POSITIVE, note=note)


CLAIMS = (
    Claim(
        "F-h",
        "A robust network with radius Θ(√d) exists.",
        _ROBUST,
        robust_exists,
        parts=("robust-by-d", "robust-by-k"),
        figure="robust-accuracy",
        check=_BUILT,
    ),
    Claim(
        "F-h.d",
        "f_robust's radius grows with the dimension as √d.",
        _ROBUST,
        robust_by_d,
        parts=("robust-by-d",),
        figure="radius-by-d",
        check=_BUILT,
    ),
    Claim(
        "F-h.k",
        "f_robust's radius does not depend on the number of clusters.",
        _ROBUST,
        robust_by_k,
        parts=("robust-by-k",),
        figure="radius-by-k",
        check=_BUILT,
    ),
    Claim(
        "F-j",
        "Averaged features have larger gradients at equal margin than the robust solution.",
        "Li 2024, talk: Average Features are Non-robust Features, intuition",
        lambda frame: larger_gradients(frame, other="robust-by-d"),
        parts=("averaging", "robust-by-d"),
    ),
    Claim(
        "F-j.decoupled",
        "Averaged features have larger gradients at equal margin than decoupled ones.",
        "Li 2024, talk: Average Features are Non-robust Features, intuition",
        lambda frame: larger_gradients(frame, other="decoupling"),
        parts=("averaging", "decoupling"),
    ),
)
