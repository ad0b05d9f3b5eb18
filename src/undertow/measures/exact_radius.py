"""Exact robust radii of narrow two-layer networks at points, as a measure for probes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

from torch import Tensor, nn

from undertow.adversary.certificates.network_graph import graph_of
from undertow.adversary.classifier import Classifier
from undertow.adversary.exact.branching import exact_distance
from undertow.adversary.exact.row_space import in_row_space
from undertow.adversary.exact.two_layer_gaps import two_layer_of
from undertow.core.errors import InputError
from undertow.measures.margins import margins
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.raw_inputs import taken_for_logits
from undertow.measures.reading import Reading, labels_for

__all__ = ["ExactRadius"]

_BRANCHES = (
    12  # neurons against a decision: by size, not by the clock, so that records are the same everywhere
)


class ExactRadius(NamedMeasure):
    """L2 radii of the probe's points under a two-layer network of one logit with at most 12 neurons against each class.

    Readings: ``mean`` and ``least`` radius, in units of the points' root mean square norm; clean errors have radius
    0. ``margin`` = q_min/‖W‖_F of the first layer, γ, and ``log10_loss`` of the mean loss, to compare at equal ones.
    """

    name: ClassVar[str] = "exact-radius"

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        labels = labels_for(self, y)
        small, points = in_row_space(net, x)
        classifier = Classifier(small, readout="logit")
        with taken_for_logits():
            graph = graph_of(classifier, classifier.modules[0], points)
        two_layer = None if graph is None else two_layer_of(graph, points[:1])
        if two_layer is None:
            raise InputError(
                f"{self.name} solves two-layer networks: give Linear, ReLU or leaky ReLU, Linear."
            )
        against = max(int((own - other < 0).sum()) for own in two_layer.head for other in two_layer.head)
        if against > _BRANCHES:
            raise InputError(
                f"{against} neurons speak against a decision; {self.name} solves up to {_BRANCHES}: take a "
                "narrower network."
            )
        unit = math.sqrt(float(x.flatten(1).double().square().sum(1).mean()))
        radii = [
            exact_distance(
                two_layer, point, label, norm=2.0, upper=math.inf, box=None, seconds=math.inf
            ).upper
            for point, label in zip(points.cpu().numpy(), (labels > 0).long().tolist(), strict=True)
        ]
        yield "mean", sum(radii) / len(radii) / unit, None
        yield "least", min(radii) / unit, None
        found = margins(net, x, labels, parameters=["hidden"])
        yield "margin", found.smallest / found.norm, None
        yield "log10_loss", found.log10_loss - math.log10(len(x)), None
