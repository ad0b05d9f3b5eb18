"""Do cluster labels decouple the features, and is the network more robust then? (claims F-k and F-l)

One neuron for each cluster, no biases, cross-entropy over the clusters. Robustness depends on what is attacked: the
binary read-out Σ_{J₊} f_j − Σ_{J₋} f_j, or the native decision for the cluster with the largest output. For w_j ∝ μ_j
the read-out's radius is √(2d/(k+2)), again of the order √(d/k); the native one is half the distance between centres,
of the order √d.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from undertow.core.errors import InputError
from undertow.studies.feature_averaging.radius import radii
from undertow.studies.feature_averaging.sizes import (
    SEEN,
    by_seed,
    exponents,
    most,
    networks,
    one_per_seed,
)
from undertow.studies.feature_averaging.synthetic import BY_CLUSTERS
from undertow.studies.kit.claim import POSITIVE, Claim, Finding, decide

if TYPE_CHECKING:
    import polars

__all__ = ["CLAIMS"]

_THEOREM = "Li, Pan, Lyu & Li 2025, slides: Multiple-Info Helps Learning Feature-Decoupled Solutions"
_BY_K = tuple(f"decoupling-{count}" for count in BY_CLUSTERS)


def own_coefficient(frame: polars.DataFrame) -> Finding:
    """Per seed the smallest λ_ii, against 1/2."""
    table = networks(frame, "feature-coefficients")
    dead = table.filter(table["own_least"] < 1e-3).height
    note = (
        f"effect: smallest λ_ii, k = {most(table, 'k')}; {dead} of {table.height} networks have a dead neuron, off on "
        "every point of its cluster at the start (which has probability 1/(n/k + 1) for n/k points)"
    )
    return decide(by_seed(table, "own_least", "min"), above=0.5, note=note)


def cross_coefficients(frame: polars.DataFrame) -> Finding:
    """Per seed the largest |λ_ij| relative to the mean λ_ii, against 1/10."""
    table = networks(frame, "feature-coefficients")
    note = f"effect: largest |λ_ij| / mean λ_ii, k = {most(table, 'k')}"
    return decide(by_seed(table, "cross_share"), below=0.1, within=POSITIVE, note=note)


def more_robust(frame: polars.DataFrame, *, native: bool) -> Finding:
    """Per seed the radius with cluster labels over the radius with binary labels, on the same data, against 1.

    Exact radii where they were solved for every point of both networks, and the best attacks' otherwise.
    """
    import polars

    table = networks(frame, "cluster-radius")
    key = "native:" if native else ""
    side = "exact" if f"{key}exact" in table.columns and "exact" in table.columns else "attacked"
    ours = one_per_seed(table.filter(polars.col("part") == "decoupling"), f"{key}{side}")
    theirs = one_per_seed(table.filter(polars.col("part") == "averaging"), side)
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        raise InputError("no pair of networks to compare")
    means = [statistics.fmean(radius[seed] for seed in seeds) for radius in (ours, theirs)]
    decision = "native decision" if native else "binary read-out"
    note = "effect: ratio of {} radii, {}; mean radii {:.3f}√d against {:.3f}√d".format(
        side, decision, *means
    )
    return decide([ours[seed] / theirs[seed] for seed in seeds], above=1.0, within=POSITIVE, note=note)


def order(frame: polars.DataFrame, key: str) -> Finding:
    """Per seed the exponent in k of the attacked radius with cluster labels, against −1/4: Θ(√d) has 0, √(d/k) −1/2."""
    import polars

    table = radii(frame)
    means = table.group_by("k").agg(polars.col(f"{key} length").mean()).sort("k")
    values = ", ".join(f"{value:.3g} at {k}" for k, value in means.iter_rows())
    note = f"effect: exponent in k of the mean radius; radius by k: {values}"
    return decide(exponents(table, "k", key), above=-0.25, note=note)


CLAIMS = (
    Claim(
        "F-k",
        "With cluster labels every neuron learns its own feature: λ_ii = Ω(1).",
        _THEOREM,
        own_coefficient,
        parts=("decoupling",),
        figure="cosines",
        hindsight=SEEN,
    ),
    Claim(
        "F-k.cross",
        "With cluster labels the other coefficients are negligible: λ_ij = o(1).",
        _THEOREM,
        cross_coefficients,
        parts=("decoupling",),
        figure="cosines",
        hindsight=SEEN,
    ),
    Claim(
        "F-l.readout",
        "Cluster labels give a more robust network: binary read-out.",
        _THEOREM,
        lambda frame: more_robust(frame, native=False),
        parts=("averaging", "decoupling"),
        figure="robust-accuracy",
    ),
    Claim(
        "F-l.native",
        "Cluster labels give a more robust network: native decision among k clusters.",
        _THEOREM,
        lambda frame: more_robust(frame, native=True),
        parts=("averaging", "decoupling"),
        figure="robust-accuracy",
    ),
    Claim(
        "F-l.readout-order",
        "The read-out of decoupled features is robust as f_robust is: its radius does not fall with k.",
        f"{_THEOREM}; our reading of provably more robust",
        lambda frame: order(frame, "attacked"),
        parts=_BY_K,
        figure="radius-by-k",
        hindsight=SEEN,
    ),
    Claim(
        "F-l.native-order",
        "The native decision of decoupled features has a radius that does not fall with k.",
        f"{_THEOREM}; our reading of provably more robust",
        lambda frame: order(frame, "native:attacked"),
        parts=_BY_K,
        figure="radius-by-k",
        hindsight=SEEN,
    ),
)
