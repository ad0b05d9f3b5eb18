"""Several networks of one architecture measured at one moment."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from undertow.probe.checks import readings_of
from undertow.probe.reading import Measure, MemberMeasure, Reading
from undertow.probe.tracking import Tracked
from undertow.probe.untouched import untouched

__all__ = ["read_together"]


def read_together(
    measure: Measure | Sequence[Measure], networks: Sequence[nn.Module], x: Tensor, y: Tensor | None
) -> list[list[Reading]]:
    """The readings of each network on the same points; the networks are left untouched.

    A measure that can reads all of them at once, any other one after the other. A sequence of measures is one
    for each network.

    >>> import torch
    >>> from undertow.probe import StableRank
    >>> nets = [nn.Linear(2, 2, bias=False) for _ in range(2)]
    >>> _ = nn.init.eye_(nets[0].weight), nn.init.ones_(nets[1].weight)
    >>> readings = read_together(StableRank(), nets, torch.ones(1, 2), None)
    >>> [round(value, 6) for ((_, value, _),) in readings]
    [2.0, 1.0]
    """
    with untouched(nn.ModuleList(networks)):
        if isinstance(measure, Sequence):
            trackers = [own.tracker for own in measure if isinstance(own, Tracked)]
            together = getattr(trackers[0], "together", None) if trackers else None
            if together is not None and len(networks) > 1:
                return [list(readings) for readings in together(trackers, networks, x, y)]
            return [
                list(readings_of(own, own(net, x, y))) for own, net in zip(measure, networks, strict=True)
            ]
        if isinstance(measure, MemberMeasure) and len(networks) > 1:
            return [list(readings) for readings in measure.together(networks, x, y)]
        return [list(readings_of(measure, measure(net, x, y))) for net in networks]
