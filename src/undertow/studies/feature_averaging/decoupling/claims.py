"""F-k and F-l: with cluster labels every neuron learns its own feature, and the network is more robust.

One neuron for each cluster, no biases, cross-entropy over the clusters. Robustness depends on what is attacked: the
binary read-out Σ_{J₊} f_j − Σ_{J₋} f_j, or the native decision for the cluster with the largest output. For w_j ∝ μ_j
the read-out's radius is √(2d/(k+2)), again of the order √(d/k); the native one is half the distance between centres,
of the order √d.
"""

from __future__ import annotations

import polars

from undertow.studies.feature_averaging.cluster_grids import BY_CLUSTERS
from undertow.studies.feature_averaging.cluster_tables import SEEN, most, networks, radii, radius_by
from undertow.studies.kit.claim import POSITIVE, Finding, decide
from undertow.studies.kit.per_seed import exponents, mean, verdict
from undertow.studies.kit.readings import compared
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS"]

_THEOREM = "Li, Pan, Lyu & Li 2025, slides: Multiple-Info Helps Learning Feature-Decoupled Solutions"
_BOTH = ("averaging", "decoupling")
_BY_K = tuple(f"decoupling-{count}" for count in BY_CLUSTERS)

CLAIMS = Claims(_THEOREM, parts=("decoupling",), hindsight=SEEN)


@CLAIMS.add("F-k", "With cluster labels every neuron learns its own feature: λ_ii = Ω(1).", figure="cosines")
def own_coefficient(frame: polars.DataFrame) -> Finding:
    """Per seed the smallest λ_ii, against 1/2."""
    table = networks(frame, "feature-coefficients")
    dead = table.filter(polars.col("own_least") < 1e-3).height
    note = (
        f"effect: smallest λ_ii, k = {most(table, 'k')}; {dead} of {table.height} networks have a dead neuron, off on "
        "every point of its cluster at the start (which has probability 1/(n/k + 1) for n/k points)"
    )
    return verdict(table, "own_least", over="min", above=0.5, note=note)


@CLAIMS.add(
    "F-k.cross",
    "With cluster labels the other coefficients are negligible: λ_ij = o(1).",
    figure="cosines",
)
def cross_coefficients(frame: polars.DataFrame) -> Finding:
    """Per seed the largest |λ_ij| relative to the mean λ_ii, against 1/10."""
    table = networks(frame, "feature-coefficients")
    note = f"effect: largest |λ_ij| / mean λ_ii, k = {most(table, 'k')}"
    return verdict(table, "cross_share", over="max", below=0.1, within=POSITIVE, note=note)


@CLAIMS.add(
    "F-l.readout",
    "Cluster labels give a more robust network: binary read-out.",
    parts=_BOTH,
    figure="robust-accuracy",
    hindsight="",
    native=False,
)
@CLAIMS.add(
    "F-l.native",
    "Cluster labels give a more robust network: native decision among k clusters.",
    parts=_BOTH,
    figure="robust-accuracy",
    hindsight="",
    native=True,
)
def more_robust(frame: polars.DataFrame, *, native: bool) -> Finding:
    """Per seed the radius with cluster labels over the radius with binary labels, on the same data, against 1.

    Exact radii where they were solved for every point of both networks, and the best attacks' otherwise.
    """
    table, key = networks(frame, "cluster-radius"), "native:" if native else ""
    side = "exact" if {"exact", f"{key}exact"} <= set(table.columns) else "attacked"
    ours = polars.when(polars.col("part") == "decoupling").then(f"{key}{side}").otherwise(side)
    both = compared(
        table.with_columns(radius=ours), "part", "decoupling", "averaging", value="radius", on=["seed"]
    )
    note = (
        f"effect: ratio of {side} radii, {'native decision' if native else 'binary read-out'}; "
        f"mean radii {mean(both['one']):.3f}√d against {mean(both['other']):.3f}√d"
    )
    return verdict(both.drop_nulls(), "ratio", above=1.0, within=POSITIVE, note=note)


@CLAIMS.add(
    "F-l.readout-order",
    "The read-out of decoupled features is robust as f_robust is: its radius does not fall with k.",
    source=f"{_THEOREM}; our reading of provably more robust",
    parts=_BY_K,
    figure="radius-by-k",
    side="attacked",
)
@CLAIMS.add(
    "F-l.native-order",
    "The native decision of decoupled features has a radius that does not fall with k.",
    source=f"{_THEOREM}; our reading of provably more robust",
    parts=_BY_K,
    figure="radius-by-k",
    side="native:attacked",
)
def order(frame: polars.DataFrame, side: str) -> Finding:
    """Per seed the exponent in k of the attacked radius with cluster labels, against −1/4: Θ(√d) has 0, √(d/k) −1/2."""
    table = radii(frame)
    note = f"effect: exponent in k of the mean radius; {radius_by(table, 'k', side)}"
    return decide(exponents(table, "k", side), above=-0.25, note=note)
