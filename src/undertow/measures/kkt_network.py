"""The closed-form KKT network of clusters (Frei et al. 2023) beside a trained one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from undertow.core.sections import NonNegative
from undertow.measures.cluster_centres import Clusters, clusters_in, needs_clusters
from undertow.measures.feature_steps import two_layer_parts
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for
from undertow.measures.scores import check_one_logit
from undertow.theory.frei import kkt_network, universal_direction, universal_radius

__all__ = ["KktNetwork"]


class KktNetwork(NamedMeasure):
    """The closed-form KKT network of the data's orthogonal centres (see ``undertow.theory.frei``) beside the network.

    For two-layer ReLU networks with a bias in the hidden layer and one logit. Readings: ``likeness``, the mean
    cosine of a neuron (w, b) with the KKT network's of the same sign; and ``universal@t``, the share of points
    still right after a move of t·√(d/k) along ∓Σ_j y_j μ_j, the same for all points of a class.
    """

    name: ClassVar[str] = "kkt-network"
    moves: tuple[NonNegative, ...] = (0.5, 1.0, 1.5, 2.0)

    def about(self, details: Mapping[str, Tensor]) -> _Beside:
        return _Beside(clusters_in(details, name=self.name), self)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        raise needs_clusters(self.name, net, x, y)


@dataclass(frozen=True)
class _Beside:
    name: ClassVar[str] = KktNetwork.name
    clusters: Clusters
    options: KktNetwork

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        parts, clusters = two_layer_parts(net), self.clusters.like(x)
        ideal = kkt_network(clusters.centres, clusters.signs)
        rows = torch.cat([ideal.weight, ideal.bias[:, None]], dim=1)
        ours = torch.cat([parts.weight, parts.bias[:, None]], dim=1)
        yield "likeness", float(cosine_similarity(ours, rows[(parts.head[0] < 0).long()]).mean()), None
        labels = 2.0 * labels_for(self, y).double() - 1
        square = float(clusters.centres[0].square().sum())
        radius = universal_radius(len(clusters.signs), d=square)
        back = radius * universal_direction(clusters.centres, clusters.signs)
        for move in self.options.moves:
            with torch.no_grad():
                scores = net((x.double() - move * labels[:, None] * back).to(x))
            check_one_logit(self, scores, len(x))
            right = scores.double().flatten() * labels > 0
            yield f"universal@{move!r}", float(right.double().mean()), None
