"""The old address of the store and the configurations: `undertow.Store`, `undertow.config`."""

from undertow.config.grid import StudyConfig
from undertow.config.trial import TrialConfig
from undertow.store.store import Store

__all__ = ["Store", "StudyConfig", "TrialConfig"]
