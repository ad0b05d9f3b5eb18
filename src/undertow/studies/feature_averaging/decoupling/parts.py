"""Cluster labels: one neuron for each cluster, at the largest d and at four numbers of clusters."""

from __future__ import annotations

from functools import partial
from typing import Any

from undertow.studies.feature_averaging.cluster_grids import BY_CLUSTERS, cell
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]


def by_label(scale: Scale, variant: str, *, count: str | None = None) -> dict[str, Any]:
    """The largest d, or half of it for another number of clusters."""
    return cell(scale, variant, count=count).by_label(pairs=count is None)


PARTS: dict[str, Part] = {
    "decoupling": by_label,
    **{f"decoupling-{count}": partial(by_label, count=count) for count in BY_CLUSTERS},
}
