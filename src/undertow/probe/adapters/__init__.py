"""Probes in other people's training loops: an optimiser that is followed, callbacks, places for records.

Names are imported on first use: a callback needs the package that it is for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same table as below, for type checkers and editors
    from undertow.probe.adapters.followed_optimizer import Following as Following
    from undertow.probe.adapters.followed_optimizer import follow as follow
    from undertow.probe.adapters.lightning_probe import LightningProbe as LightningProbe
    from undertow.probe.adapters.transformers_probe import TransformersProbe as TransformersProbe
    from undertow.probe.sinks import Csv as Csv
    from undertow.probe.sinks import Log as Log
    from undertow.probe.sinks import TensorBoard as TensorBoard

_WHERE = {
    "Following": "undertow.probe.adapters.followed_optimizer",
    "follow": "undertow.probe.adapters.followed_optimizer",
    "LightningProbe": "undertow.probe.adapters.lightning_probe",
    "TransformersProbe": "undertow.probe.adapters.transformers_probe",
    "Csv": "undertow.probe.sinks",
    "Log": "undertow.probe.sinks",
    "TensorBoard": "undertow.probe.sinks",
}

__all__ = [*_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'undertow.probe.adapters' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
