"""Somebody else's trainer goes on from a checkpoint, and a probe with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from undertow.probe.probe import Probe

__all__ = ["resume"]


def resume(probe: Probe, saved: Mapping[str, Any], *, epoch: int) -> None:
    """Give the probe what was saved of it, where the trainer begins with this epoch.

    An epoch that ended with the checkpoint is ended for the probe here: the trainer does not end it again.
    """
    probe.load_state_dict(saved)
    for _ in range(int(saved["epoch"]), epoch):
        probe.epoch_end()
