"""The measures that a probe is given, made ready for its training: trackers begun, points counted."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.network_copies import copy_of
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Measure, TrackingMeasure
from undertow.probe.tracking import begin_tracking, remembers

__all__ = ["begun", "points_of", "with_standard_error"]


def points_of(measure: Measure | TrackingMeasure, count: int) -> int:
    """How many of ``count`` points the measure takes."""
    points = getattr(measure, "points", None)
    return min(count, points) if isinstance(points, int) else count


def with_standard_error(measure: Measure | TrackingMeasure) -> Measure | TrackingMeasure:
    """The measure with the uncertainty that a choice of points brings, where it knows it: a budget chooses."""
    if isinstance(measure, NamedMeasure) and getattr(measure, "standard_error", True) is None:
        return cast(Measure, measure.model_copy(update={"standard_error": True}))
    return measure


def begun(
    measure: Measure | TrackingMeasure, net: nn.Module, training: tuple[Tensor, Tensor, float] | None
) -> Measure:
    """The measure, or where it has a memory its tracker of a training that begins at ``net``."""
    if not remembers(measure):
        return cast(Measure, measure)
    if training is None:
        raise InputError(
            f"{measure.name} follows the training: tell the probe what it is, training=(x, y, learning_rate)."
        )
    x, y, learning_rate = training
    return begin_tracking(measure, copy_of(net).eval(), x, y, learning_rate=learning_rate)
