"""Useful and robustly useful features (Ilyas et al. 2019): cluster centres, their average, and a network's neurons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.sections import NonNegative
from undertow.measures.cluster_centres import Clusters, clusters_in, needs_clusters
from undertow.measures.feature_steps import two_layer_parts
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for
from undertow.theory.feature_averaging import averaged_direction

__all__ = ["UsefulFeatures", "usefulness"]


def usefulness(direction: Tensor, x: Tensor, sign: Tensor, *, eps: float) -> tuple[float, float]:
    """E[y f(x)] and E[inf_{‖δ‖₂ ≤ ε} y f(x + δ)] of f(x) = ⟨w, x⟩ with ‖w‖ = 1, y = ±1.

    A feature is ρ-useful where the first is at least ρ, γ-robustly useful where the second is at least γ. A linear one
    loses exactly ε‖w‖ to the worst δ = −εyw, whatever x is. Dividing f by its standard deviation, as the paper does,
    changes no sign.

    >>> usefulness(torch.tensor([1.0, 0.0]), torch.tensor([[3.0, 1.0], [-1.0, 2.0]]), torch.tensor([1, -1]), eps=0.5)
    (2.0, 1.5)
    """
    unit = direction.double() / direction.double().norm()
    useful = float((sign.double() * (x.double() @ unit)).mean())
    return useful, useful - eps


class UsefulFeatures(NamedMeasure):
    """How useful features of D_binary are, and how robustly, in units of √d; ``eps`` is the attacker's radius in these.

    Keys ``feature:points:useful`` and ``…:robust``. Features: ``centre``, s_j⟨μ_j, x⟩/‖μ_j‖ as a mean over clusters;
    ``average``, ⟨Σ s_j μ_j, x⟩ normalised; ``neuron``, a_r⟨w_r, x⟩ normalised, as a mean over neurons. Points:
    ``all``, the paper's definition; ``own``, given that the point is of the feature's own cluster, or of one of its
    class for ``average`` and ``neuron``.

    At the distribution itself, k orthogonal centres of norm √d: E[y f] is 1/k for a centre and 1/√k for the
    average, and 1 and 1/√k given the own cluster.
    """

    name: ClassVar[str] = "useful-features"
    eps: NonNegative = 0.5

    def about(self, details: Mapping[str, Tensor]) -> _OfClusters:
        return _OfClusters(clusters_in(details, name=self.name), self.eps)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        raise needs_clusters(self.name, net, x, y)


@dataclass(frozen=True, eq=False)
class _OfClusters:
    clusters: Clusters
    eps: float
    name: str = UsefulFeatures.name

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        sign = 2 * labels_for(self, y).long() - 1
        known = self.clusters.like(x)
        flat, cluster = x.flatten(1).double(), known.nearest(x)
        length = flat.shape[1] ** 0.5
        parts = two_layer_parts(net)
        neurons = parts.weight.double() * parts.head[0].double().sign()[:, None]
        features = {
            "centre": [(known.signs[j] * mu, cluster == j) for j, mu in enumerate(known.centres)],
            "average": [
                (averaged_direction(known.centres, known.signs), torch.ones_like(sign, dtype=torch.bool))
            ],
            "neuron": [
                (row, sign == side)
                for row, side in zip(neurons, parts.head[0].sign(), strict=True)
                if bool(row.any())
            ],
        }
        for feature, kinds in features.items():
            for points in ("all", "own"):
                found = [
                    usefulness(w, flat[chosen], sign[chosen], eps=self.eps * length)
                    for w, own in kinds
                    if bool((chosen := own if points == "own" else torch.ones_like(own)).any())
                ]
                for word, values in zip(("useful", "robust"), zip(*found, strict=True), strict=False):
                    yield f"{feature}:{points}:{word}", sum(values) / len(values) / length, None
