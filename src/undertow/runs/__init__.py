"""Trials, the store they live in, and the engines that run them.

Names are imported on first use: watching a folder of runs needs neither torch nor pydantic.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from undertow.runs.config import TrialConfig as TrialConfig
    from undertow.runs.grid import StudyConfig as StudyConfig
    from undertow.runs.store import Store as Store

_WHERE = {
    "Store": "undertow.runs.store",
    "StudyConfig": "undertow.runs.grid",
    "TrialConfig": "undertow.runs.config",
}

__all__ = ["Store", "StudyConfig", "TrialConfig"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'undertow.runs' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
