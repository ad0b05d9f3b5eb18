"""Radii by number of clusters, of trained networks and of f_robust, which is constructed."""

from __future__ import annotations

from functools import partial
from typing import Any

from undertow.studies.feature_averaging.cluster_grids import (
    BY_CLUSTERS,
    BY_DIMENSION,
    SEEDS,
    THRESHOLD,
    cell,
    weights,
)
from undertow.studies.kit.settings import after_training_on_test
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]


def by_clusters(scale: Scale, variant: str, *, count: str) -> dict[str, Any]:
    """Binary labels at half the largest d, for another number of clusters."""
    own = cell(scale, variant, count=count)
    search = {"name": "bias-search", "rounds": own.size.rounds}
    return own.binary([*weights(pairs=False), own.radius(largest=False, eps=[0.5]), search], own.axes)


def constructed(scale: Scale, variant: str, *, axis: str) -> dict[str, Any] | None:
    """f_robust by dimension or by number of clusters, or what lies between it and averaging (``axis`` "group").

    Two thresholds: the optimal one, whose radius is half the distance between centres, and one half, whose radius
    linear bounds can prove.
    """
    if axis == "group" and variant != "paper":
        return None  # nothing is trained here: once is enough
    whole = cell(scale, variant)
    counts = {"k": whole.some(list(BY_CLUSTERS)), "group": ["many"]}.get(axis, [])
    k = [cell(scale, variant, count=count).k for count in counts] or [whole.k]
    divisors = whole.some(list(BY_DIMENSION.values())) if axis == "d" else [2]
    dimensions = [whole.d // divide for divide in divisors]
    # Attacks find the way straight against one neuron. With the optimal threshold the shortest, which switches one
    # other on, is up to 5 % shorter, and neither gradients nor the certificate point there: ``exact`` tells.
    measures = [whole.radius(largest=False, shorten=False)]
    return {
        "data": {"name": "d-binary", "n": k[-1], "d": dimensions[0], "k": k[0]},
        "model": {"name": "grouped-centres"},
        "training": {"epochs": 0, "loss": "logistic", "dtype": "float64"},
        "probe": after_training_on_test(measures, whole.size.points),
        "grid": {
            "data.d": dimensions,
            "data.k": k,
            "group": [g for g in (1, 2, 5, 10) if 2 * g <= k[0]] if axis == "group" else [1],
            "threshold": [THRESHOLD] if axis == "group" else [THRESHOLD, 0.5],
            "seed": SEEDS,
        },
    }


PARTS: dict[str, Part] = {
    **{f"averaging-{count}": partial(by_clusters, count=count) for count in BY_CLUSTERS},
    "robust-by-d": partial(constructed, axis="d"),
    "robust-by-k": partial(constructed, axis="k"),
    "between": partial(constructed, axis="group"),
}
