"""The networks that a group keeps on its way: written at once into its work folder, and published with its trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from undertow.config.trial import TrialConfig
from undertow.core.canonical import digest
from undertow.core.errors import StoreError
from undertow.core.files import read_regular
from undertow.core.tensor_files import pack
from undertow.probe.schedule import Every, Schedule
from undertow.store.atomic import make_folder, replace_file
from undertow.store.kept_network import kept_name
from undertow.training import Trainer

__all__ = ["KeptNetworks"]


class KeptNetworks:
    """Which networks a group has kept, by the schedule ``keep``; none without one.

    A file is there before the checkpoint that knows of it. What a checkpoint does not know of was written after it, and
    is written again: ``restore`` removes it.
    """

    def __init__(
        self, folder: Path, trials: Sequence[TrialConfig], trainer: Trainer, *, keep: Every | None
    ) -> None:
        self._folder, self._trials, self._trainer = folder, trials, trainer
        steps_per_epoch = max(trainer.steps_per_epoch, 1)
        self._schedule = None if keep is None else Schedule(keep, steps_per_epoch=steps_per_epoch)
        self._seen = [-1] * len(trials)  # each network's steps when it was last looked at
        self._levels = [math.inf] * len(trials)  # and the decades that decide, where it was last kept
        self._checksums: list[dict[str, str]] = [{} for _ in trials]

    def next(self, step: int) -> int | None:
        """The first step of the trainer after ``step`` at which a network may have to be kept; None where never."""
        if self._schedule is None:
            return None
        if self._trainer.revocable:  # networks stand at the end of a try
            return (step // self._trainer.steps_per_epoch + 1) * self._trainer.steps_per_epoch
        return self._schedule.next(step)

    def take(self) -> None:
        """Keep the networks whose moment has come, if they did not diverge and have not been looked at there."""
        if self._schedule is None:
            return
        trainer = self._trainer
        steps, epochs, running = trainer.steps(), trainer.epochs(), trainer.running()
        losses = [loss / math.log(10) for loss in trainer.log_loss().tolist()]
        times = (
            [time / math.log(10) for time in trainer.log_time()] if self._schedule.level == "time" else losses
        )
        for index, step in enumerate(steps):
            if running[index] and step != self._seen[index]:
                if self._is_due(self._schedule, index, step, times[index]):
                    self._levels[index] = times[index]
                    self._write(index, kept_name(step, epochs[index], losses[index]))
                self._seen[index] = step

    def _is_due(self, schedule: Schedule, index: int, step: int, now: float) -> bool:
        if step == 0:
            return schedule.due(0)
        if schedule.level is not None:
            return schedule.passed(self._levels[index], now)
        return schedule.next(self._seen[index]) <= step

    def _write(self, index: int, name: str) -> None:
        data = pack(self._trainer.state_of(index))
        make_folder(self._folder)
        replace_file(self._path(index, name), data)
        self._checksums[index][name] = digest(data)

    def _path(self, index: int, name: str) -> Path:
        return self._folder / f"{self._trials[index].id}.{name}"

    def files(self, index: int) -> dict[str, bytes]:
        """What a trial's folder will hold of it, by name."""
        return {name: self._read(index, name, checksum) for name, checksum in self._checksums[index].items()}

    def _read(self, index: int, name: str, checksum: str) -> bytes:
        path = self._path(index, name)
        try:
            data = read_regular(path)
        except OSError as error:
            raise StoreError(f"{path} cannot be read, {error.strerror}: {_REMOVE}") from None
        if digest(data) != checksum:
            raise StoreError(f"{path} is damaged, its checksum is not the one recorded: {_REMOVE}")
        return data

    # What a checkpoint knows

    def state(self) -> dict[str, Any]:
        """For a checkpoint's notes: plain words and numbers."""
        levels = [None if math.isinf(level) else level for level in self._levels]
        return {"seen": self._seen, "levels": levels, "files": self._checksums}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to what a checkpoint knew; a file that it does not know of was written after it."""
        if self._schedule is None or not state:
            return
        self._seen = list(state["seen"])
        self._levels = [math.inf if level is None else level for level in state["levels"]]
        self._checksums = [dict(files) for files in state["files"]]
        self.clear()

    def clear(self) -> None:
        """Remove what no checkpoint knows of."""
        if self._schedule is None:
            return
        known = {self._path(index, name) for index, files in enumerate(self._checksums) for name in files}
        for path in self._folder.glob("*.kept-*.safetensors"):
            if path not in known:
                path.unlink()


_REMOVE = "remove its folder, then run `undertow resume` to compute these trials again."
