"""Measures on a schedule inside anyone's training loop; records out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow.probe.measures import (
    MEASURES,
    Accuracy,
    Collaboration,
    Energy,
    Loss,
    Measure,
    RiskBound,
    RobustAccuracy,
    StableRank,
    measure,
)
from undertow.probe.reading import Reading, Tracker
from undertow.probe.records import Record
from undertow.probe.schedule import Every, Schedule

if TYPE_CHECKING:
    from undertow.probe.probe import Probe, take

__all__ = [
    "MEASURES",
    "Accuracy",
    "Collaboration",
    "Energy",
    "Every",
    "Loss",
    "Measure",
    "Probe",
    "Reading",
    "Record",
    "RiskBound",
    "RobustAccuracy",
    "Schedule",
    "StableRank",
    "Tracker",
    "measure",
    "take",
]


def __getattr__(name: str) -> Any:
    # Only these two need torch at import; configuration files are read without it.
    if name in ("Probe", "take"):
        from undertow.probe import probe

        return getattr(probe, name)
    raise AttributeError(f"module 'undertow.probe' has no attribute {name!r}")
