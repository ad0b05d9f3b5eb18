"""Min & Vidal's distances as a measure: is a pReLU network one of averaged or of separate features?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import normalize

from undertow.core.sections import Count
from undertow.measures.cluster_centres import Clusters, clusters_in, needs_clusters
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading
from undertow.theory.prelu_targets import averaged_target, decoupled_target, distance_to

__all__ = ["FeatureDistance"]


class FeatureDistance(NamedMeasure):
    """inf_c sup_{‖x‖=1} |c f(x) − F(x)| for F of averaged features (``averaged``) and of one each (``decoupled``).

    For data around orthogonal centres, whose directions are the features; both targets have the power of the
    network's own activation. Readings: ``averaged:lower`` and ``averaged:upper`` bracket the distance (see
    ``undertow.theory.prelu_targets``), ``averaged:relative`` is the lower one divided by sup |F|, the distance of the
    zero function, with the width of the bracket as its error; and the same for ``decoupled``.
    """

    name: ClassVar[str] = "feature-distance"
    starts: Count = 128

    def about(self, details: Mapping[str, Tensor]) -> _Distance:
        return _Distance(clusters_in(details, name=self.name), self.starts)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        raise needs_clusters(self.name, net, x, y)


@dataclass(frozen=True)
class _Distance:
    name: ClassVar[str] = FeatureDistance.name
    clusters: Clusters
    starts: int

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        power = float(getattr(dict(net.named_children()).get("activation"), "power", 1.0))
        clusters = self.clusters.like(x)
        features = normalize(clusters.centres, dim=1)
        targets = {
            "averaged": averaged_target(features, clusters.signs, power=power),
            "decoupled": decoupled_target(features, clusters.signs, power=power),
        }
        for name, target in targets.items():
            found = distance_to(net, target, starts=self.starts)
            width = found.upper - found.lower
            yield f"{name}:lower", found.lower, None
            yield f"{name}:upper", found.upper, None
            yield f"{name}:relative", found.lower / target.largest, width / target.largest
