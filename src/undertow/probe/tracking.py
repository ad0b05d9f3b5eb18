"""Measures with a memory of the training, as a probe and a run follow them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard, cast

from torch import Tensor, nn

from undertow.measures.reading import Measure, Reading, Tracker, TrackingMeasure

__all__ = ["Tracked", "begin_tracking", "remembers", "restore_all", "state_of_all"]


@dataclass(frozen=True)
class Tracked:
    """A tracker under its measure's name, read like any measure."""

    name: str
    tracker: Tracker

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        return self.tracker.read(net, x, y)

    @property
    def observes(self) -> bool:
        """Whether the tracker is to be shown every step."""
        return getattr(self.tracker, "observes", True)


def remembers(measure: Measure | TrackingMeasure) -> TypeGuard[TrackingMeasure]:
    """Whether the measure has a memory of the training."""
    return isinstance(measure, TrackingMeasure) and getattr(measure, "remembers", True)


def begin_tracking(
    measure: Measure | TrackingMeasure, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float
) -> Measure:
    """The measure itself, or where it has a memory its tracker of this training run."""
    if not remembers(measure):
        return cast(Measure, measure)
    return Tracked(measure.name, measure.begin(start, x, y, learning_rate=learning_rate))


def state_of_all(measures: Mapping[str, Measure]) -> dict[str, Tensor]:
    """What the trackers among the measures remember, each tensor's name led by its measure's key."""
    return {
        f"{key}/{name}": tensor
        for key, measure in measures.items()
        if isinstance(measure, Tracked)
        for name, tensor in measure.tracker.state().items()
    }


def restore_all(measures: Mapping[str, Measure], state: Mapping[str, Tensor]) -> None:
    """Give every tracker back what ``state_of_all`` took from it."""
    for key, measure in measures.items():
        if isinstance(measure, Tracked):
            own = {name.removeprefix(f"{key}/"): t for name, t in state.items() if name.startswith(f"{key}/")}
            measure.tracker.restore(own)
