"""Normalised margins in four norms of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from torch import Tensor, nn

from undertow.core.scoring import chosen_parameters
from undertow.core.sections import Text
from undertow.measures.margins import margins
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
        found = margins(net, x, labels_for(self, y), parameters=self.parameters)
        weights = list(chosen_parameters(net, self.parameters).values())
        yield "smallest", found.smallest, None
        yield "log10-loss", found.log10_loss, None
        for norm in WEIGHT_NORMS:
            yield f"margin:{norm}", found.smallest / weight_norm(weights, norm) ** found.order, None
