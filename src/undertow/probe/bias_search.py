"""Whether other biases would make a network on clustered data robust, as a measure for probes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from undertow.probe.features import Clusters, clusters_in, needs_clusters
from undertow.probe.reading import Reading, labels_for

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["BiasSearch"]


@dataclass(frozen=True)
class BiasSearch:
    """The best robust accuracy that other biases could give the same weights, against the averaged direction.

    Readings: ``radius``, the largest mean radius along the averaged direction, in units of √(d/k); ``robust`` and
    ``robust_any``, the largest share of the points that survive ``reach``·√(d/k) along it, over biases that keep an
    accuracy of 90 %, and over all; see ``undertow.measures.biases``. Where none keeps it, ``robust_any`` is all.
    """

    name: ClassVar[str] = "bias-search"
    reach: float = 2.5
    rounds: int = 300
    seed: int = 0

    def about(self, details: Mapping[str, Tensor]) -> _Biases:
        return _Biases(clusters_in(details, name=self.name), self)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        raise needs_clusters(self.name, net, x, y)


@dataclass(frozen=True)
class _Biases:
    name: ClassVar[str] = BiasSearch.name
    clusters: Clusters
    options: BiasSearch

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        import torch

        from undertow.measures.averaged_direction import along_average
        from undertow.measures.biases import best_biases

        line = along_average(net, x, labels_for(self, y), self.clusters.centres, self.clusters.signs)
        unit = math.sqrt(x[0].numel() / len(self.clusters.signs))
        found = best_biases(
            line.hidden,
            line.slopes,
            line.head,
            line.sign,
            radius=self.options.reach * unit,
            rounds=self.options.rounds,
            generator=torch.Generator().manual_seed(self.options.seed),
        )
        if found.radius is not None and found.robust is not None:
            yield "radius", found.radius / unit, None
            yield "robust", found.robust, None
        yield "robust_any", found.robust_any, None
