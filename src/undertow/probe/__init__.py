"""Measures on a schedule inside anyone's training loop; records out.

Names are imported on first use: those who read records and configurations need no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from undertow.measures import MEASURES, measure
from undertow.probe.records import Record
from undertow.probe.schedule import Every, Schedule

if TYPE_CHECKING:  # the same table as below, for type checkers and editors
    from undertow.measures.clean_accuracy import Accuracy as Accuracy
    from undertow.measures.collaboration import Collaboration as Collaboration
    from undertow.measures.energy import Energy as Energy
    from undertow.measures.first_order_risk import RiskBound as RiskBound
    from undertow.measures.loss import Loss as Loss
    from undertow.measures.rank import StableRank as StableRank
    from undertow.measures.reading import Measure as Measure
    from undertow.measures.reading import Reading as Reading
    from undertow.measures.reading import Tracker as Tracker
    from undertow.measures.robust_accuracy import RobustAccuracy as RobustAccuracy
    from undertow.measures.seam_profile import SeamProfile as SeamProfile
    from undertow.measures.sharpness import Sharpness as Sharpness
    from undertow.probe.probe import Probe as Probe
    from undertow.probe.taking import take as take

_WHERE = {
    "Accuracy": "undertow.measures.clean_accuracy",
    "Collaboration": "undertow.measures.collaboration",
    "Energy": "undertow.measures.energy",
    "Loss": "undertow.measures.loss",
    "RiskBound": "undertow.measures.first_order_risk",
    "RobustAccuracy": "undertow.measures.robust_accuracy",
    "Sharpness": "undertow.measures.sharpness",
    "SeamProfile": "undertow.measures.seam_profile",
    "StableRank": "undertow.measures.rank",
    "Measure": "undertow.measures.reading",
    "Reading": "undertow.measures.reading",
    "Tracker": "undertow.measures.reading",
    "Probe": "undertow.probe.probe",
    "take": "undertow.probe.taking",
}

__all__ = ["MEASURES", "Every", "Record", "Schedule", "measure", *_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'undertow.probe' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
