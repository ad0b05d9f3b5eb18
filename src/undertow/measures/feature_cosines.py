"""Cosines of a layer's neurons with the clusters' centres: which features it has learned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from undertow.core.errors import InputError
from undertow.core.sections import Switch
from undertow.measures.cluster_centres import Clusters, clusters_in, needs_clusters, pair_readings
from undertow.measures.feature_decomposition import check_rows
from undertow.measures.feature_steps import two_layer_parts
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading

__all__ = ["FeatureCosines", "feature_cosines", "own_features"]


def feature_cosines(weight: Tensor, centres: Tensor) -> Tensor:
    """cos(w_r, μ_j) for every neuron and feature, (m, k) float64; 0 for a neuron without weights.

    A neuron along the sum of p orthogonal centres has cosine 1/√p with each of them.

    >>> feature_cosines(torch.tensor([[1.0, 1.0, 0.0]]), torch.eye(3)).round(decimals=4).tolist()
    [[0.7071, 0.7071, 0.0]]
    """
    check_rows(weight, centres)
    unit = torch.nn.functional.normalize(weight.double(), dim=1)
    return unit @ torch.nn.functional.normalize(centres.double(), dim=1).T


def own_features(head: Tensor, signs: Tensor) -> Tensor:
    """Which features belong to the class a neuron speaks for: (m, k) booleans.

    For one output (head (1, m)) a neuron speaks for the class of its sign; for k outputs (head (k, m)), cluster j
    is output j's own feature and a neuron speaks for the outputs with a positive weight.

    >>> own_features(torch.tensor([[0.5, -0.5]]), torch.tensor([1, 1, -1])).tolist()
    [[True, True, False], [False, False, True]]
    """
    if head.shape[0] == 1:
        return head[0].sign()[:, None] == signs.to(head)[None]
    if head.shape[0] != len(signs):
        raise InputError(
            f"the head has {head.shape[0]} outputs and there are {len(signs)} clusters: give a network with one "
            "output, or with one for each cluster."
        )
    return head.T > 0


class FeatureCosines(NamedMeasure):
    """cos(w_r, μ_j) of the first layer: ``r:j`` for each pair, and what the theorem says of them.

    ``own_mean``, ``own_least`` and ``own_largest`` are over pairs of one class, ``cross_largest`` is the largest
    absolute value over the others; ``aligned`` is the smallest cosine of a neuron with the sum of its own features.
    Without ``pairs`` these summaries are all.
    """

    name: ClassVar[str] = "feature-cosines"
    pairs: Switch = True

    def about(self, details: Mapping[str, Tensor]) -> _Cosines:
        return _Cosines(clusters_in(details, name=self.name), self.pairs)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        raise needs_clusters(self.name, net, x, y)


@dataclass(frozen=True)
class _Cosines:
    name: ClassVar[str] = FeatureCosines.name
    clusters: Clusters
    pairs: bool

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        parts = two_layer_parts(net)
        clusters = self.clusters.like(parts.weight)
        cosines = feature_cosines(parts.weight, clusters.centres)
        own = own_features(parts.head, clusters.signs)
        yield "own_mean", float(cosines[own].mean()), None
        yield "own_least", float(cosines[own].min()), None
        yield "own_largest", float(cosines[own].max()), None
        yield "cross_largest", float(cosines[~own].abs().max()), None
        sums = own.double() @ clusters.centres
        yield "aligned", float(cosine_similarity(parts.weight, sums).min()), None
        if self.pairs:
            yield from pair_readings(cosines)
