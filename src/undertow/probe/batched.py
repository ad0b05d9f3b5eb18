"""Several networks of one architecture measured at one moment."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from torch import Tensor, nn

from undertow.measures.reading import Measure, MemberMeasure, Reading
from undertow.probe.checks import readings_of
from undertow.probe.preserve_state import preserve_state
from undertow.probe.tracking import Tracked

__all__ = ["all_preserved", "read_batched", "readings_of_members"]


def read_batched(
    measure: Measure | Sequence[Measure], networks: Sequence[nn.Module], x: Tensor, y: Tensor | None
) -> list[list[Reading]]:
    """The readings of each network on the same points; the networks are left as they were.

    A measure that can reads all of them at once, any other one after the other. A sequence of measures is one
    for each network.

    >>> import torch
    >>> from undertow.probe import StableRank
    >>> nets = [nn.Linear(2, 2, bias=False) for _ in range(2)]
    >>> _ = nn.init.eye_(nets[0].weight), nn.init.ones_(nets[1].weight)
    >>> readings = read_batched(StableRank(), nets, torch.ones(1, 2), None)
    >>> [round(value, 6) for ((_, value, _),) in readings]
    [2.0, 1.0]
    """
    with all_preserved(networks):
        return readings_of_members(measure, networks, x, y)


def all_preserved(networks: Sequence[nn.Module]) -> contextlib.AbstractContextManager[nn.Module]:
    """``preserve_state`` of all networks."""
    together = nn.ModuleList(networks)
    together.training = False  # of the list itself: networks that are in eval mode already need no change
    return preserve_state(together)


def readings_of_members(
    measure: Measure | Sequence[Measure], networks: Sequence[nn.Module], x: Tensor, y: Tensor | None
) -> list[list[Reading]]:
    """The same inside of ``all_preserved``, which several measures then share."""
    if isinstance(measure, Sequence):
        trackers = [own.tracker for own in measure if isinstance(own, Tracked)]
        batched = getattr(trackers[0], "batched", None) if trackers else None
        if batched is not None and len(networks) > 1:
            return [list(readings) for readings in batched(trackers, networks, x, y)]
        return [list(readings_of(own, own(net, x, y))) for own, net in zip(measure, networks, strict=True)]
    if isinstance(measure, MemberMeasure) and len(networks) > 1:
        return [list(readings) for readings in measure.batched(networks, x, y)]
    return [list(readings_of(measure, measure(net, x, y))) for net in networks]
