"""Normalised margins in four norms of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

from torch import Tensor, nn

from undertow.core.losses import log_mean_loss
from undertow.core.scoring import chosen_parameters, in_double, margins_of, scores_of
from undertow.core.sections import Text
from undertow.measures.homogeneity import homogeneity_order
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for
from undertow.theory.weight_norms import WEIGHT_NORMS, weight_norm

__all__ = ["NormMargins"]


class NormMargins(NamedMeasure):
    """q_min/‖θ‖^L on the probe's points, for every norm of ``undertow.theory.weight_norms``.

    Readings: ``margin:1``, ``margin:2``, ``margin:inf``, ``margin:spectral``; ``smallest``, q_min itself; and
    ``log10-loss``, of the loss summed over the points. ``parameters`` are the beginnings of the names that count.
    """

    name: ClassVar[str] = "norm-margins"
    parameters: tuple[Text, ...] = ()

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        double, points = in_double(net), x.double()
        scores = scores_of(double, points)
        values, labels, loss = margins_of(scores, labels_for(self, y), "auto")
        weights = list(chosen_parameters(double, self.parameters).values())
        smallest, order = float(values.min()), homogeneity_order(double, points, parameters=self.parameters)
        yield "smallest", smallest, None
        summed = float(log_mean_loss(scores, labels, loss)) + math.log(len(values))
        yield "log10-loss", summed / math.log(10), None
        for norm in WEIGHT_NORMS:
            yield f"margin:{norm}", smallest / weight_norm(weights, norm) ** order, None
