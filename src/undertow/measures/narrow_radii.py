"""Exact L2 radii of narrow two-layer networks, where few enough neurons speak against a decision."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.adversary.certificates.network_graph import graph_of
from undertow.adversary.classifier import Classifier
from undertow.adversary.exact.branching import exact_distance
from undertow.adversary.exact.two_layer_gaps import two_layer_of
from undertow.core.errors import InputError

__all__ = ["narrow_radii"]


def narrow_radii(
    classifier: Classifier, points: Tensor, labels: Tensor, attacked: Tensor, *, name: str, branches: int = 8
) -> Tensor | None:
    """The radii of these points; None for a decision with more than ``branches`` neurons against it.

    That is 2^branches convex programs at the very most. ``attacked`` are radii of known adversarial examples, inf where
    none is; ``name`` is the measure's, for errors.
    """
    graph = graph_of(classifier, classifier.modules[0], points)
    two_layer = None if graph is None else two_layer_of(graph, points[:1])
    if two_layer is None:
        raise InputError(f"{name} solves two-layer networks exactly: switch exact off for this one.")
    head = two_layer.head
    against = max(int((own - other < 0).sum()) for own in head for other in head)
    if against > branches:
        return None  # by the size and not by the clock: records must not depend on how fast a machine is
    radii = [
        exact_distance(two_layer, point, label, norm=2.0, upper=upper, box=None, seconds=math.inf).upper
        for point, label, upper in zip(points.cpu().numpy(), labels.tolist(), attacked.tolist(), strict=True)
    ]
    return torch.tensor(radii).to(attacked)
