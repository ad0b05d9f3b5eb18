"""The old address of the store and the configurations: `undertow.Store`, `undertow.config`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from undertow.config.grid import StudyConfig as StudyConfig
    from undertow.config.trial import TrialConfig as TrialConfig
    from undertow.store.store import Store as Store

_WHERE = {
    "Store": "undertow.store.store",
    "StudyConfig": "undertow.config.grid",
    "TrialConfig": "undertow.config.trial",
}

__all__ = ["Store", "StudyConfig", "TrialConfig"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'undertow.runs' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
