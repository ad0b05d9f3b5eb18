"""Measures taken once, of the network as it is at this moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor, nn

from undertow.measures.reading import Measure
from undertow.probe.checks import network_explained, readings_of
from undertow.probe.preserve_state import preserve_state
from undertow.probe.records import Record

__all__ = ["take"]


def take(
    net: nn.Module,
    x: Tensor,
    y: Tensor | None = None,
    *,
    measures: Sequence[Measure],
    step: int = 0,
    epoch: int = 0,
    trial: str = "",
) -> list[Record]:
    """Every measure's readings of the network at this moment, as records; the network is left as it was."""
    return list(_take(net, x, y, measures, step, epoch, trial))


def _take(
    net: nn.Module,
    x: Tensor,
    y: Tensor | None,
    measures: Sequence[Measure],
    step: int,
    epoch: int,
    trial: str,
) -> Iterator[Record]:
    with preserve_state(net):
        for measure in measures:
            with network_explained(net, x):
                found = list(readings_of(measure, measure(net, x, y)))
            for key, value, error in found:
                yield Record(trial, step, epoch, measure.name, key, value, error)
