"""Trials, the store they live in, and the engines that run them."""

from undertow.runs.config import TrialConfig
from undertow.runs.grid import StudyConfig
from undertow.runs.store import Store

__all__ = ["Store", "StudyConfig", "TrialConfig"]
