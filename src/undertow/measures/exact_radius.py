"""Exact robust radii of narrow two-layer networks at points, as a measure for probes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

from torch import Tensor, nn

from undertow.adversary.classifier import Classifier
from undertow.adversary.exact.row_space import in_row_space
from undertow.core.errors import InputError
from undertow.measures.margins import margins
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.narrow_radii import narrow_radii
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
        classes, unknown = (labels > 0).long(), points.new_full((len(points),), math.inf)
        with taken_for_logits():
            solved = narrow_radii(
                Classifier(small, readout="logit"),
                points,
                classes,
                unknown,
                name=self.name,
                branches=_BRANCHES,
            )
        if solved is None:
            raise InputError(
                f"more than {_BRANCHES} neurons speak against a decision, which {self.name} does not solve: take a "
                "narrower network."
            )
        unit, radii = math.sqrt(float(x.flatten(1).double().square().sum(1).mean())), solved.tolist()
        yield "mean", sum(radii) / len(radii) / unit, None
        yield "least", min(radii) / unit, None
        found = margins(net, x, labels, parameters=["hidden"])
        yield "margin", found.smallest / found.norm, None
        yield "log10_loss", found.log10_loss - math.log10(len(x)), None
