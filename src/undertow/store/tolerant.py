"""A store as far as it can be read: a report says what is damaged instead of stopping at it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from undertow.core.errors import StoreError, UndertowError
from undertow.store.store import Store
from undertow.store.stored_study import StoredStudy, distinct
from undertow.store.stored_trial import StoredTrial

if TYPE_CHECKING:
    import polars

__all__ = ["ReadableStore"]

_HEAVY = re.compile(r"(weights|kept-.*)\.safetensors")


class ReadableStore(Store):
    """The same store, where trials that fail their checksums count as missing; ``problems`` says which.

    Every trial is read and verified once. Weights are verified and let go: a grid of them fills the memory.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, read_only=True)
        self.problems: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        """What is odd about the folder and harms nothing."""
        self._trials: dict[str, StoredTrial] = {}
        self._frames: dict[tuple[str, bool], polars.DataFrame] = {}

    def __contains__(self, trial: str) -> bool:
        if trial in self._trials:
            return True
        if trial in self.problems or not super().__contains__(trial):
            return False
        try:
            self._trials[trial] = _light(super().trial(trial))
        except StoreError as error:
            self.problems[trial] = str(error)
            return False
        return True

    def trial(self, trial: str) -> StoredTrial:
        return self._trials[trial] if trial in self else super().trial(trial)

    def studies(self) -> list[StoredStudy]:
        found: list[tuple[str, StoredStudy]] = []
        for label in self.labels():
            try:
                found.append((label, self.study(label)))
            except UndertowError as error:  # damaged in both copies, or written by another version
                self.problems[label] = f"The study {label} cannot be read: {error}"
        copies: dict[str, str] = {}
        studies = distinct(found, copies=copies)
        for label, name in copies.items():
            path = self.path / "studies" / f"{label}.json"
            self.notes[label] = f"{path} is a copy of the study {name}, and left out: remove it."
        return studies

    def frame(self, *studies: StoredStudy, so_far: bool = False) -> polars.DataFrame:
        from undertow.store.frame import (  # polars: `undertow studies` and `data list` go without
            frame,
            joined,
        )

        asked = studies or self.studies()
        for study in asked:
            if (study.label, so_far) not in self._frames:
                self._frames[study.label, so_far] = frame(self, [study], so_far=so_far)
        return joined([self._frames[study.label, so_far] for study in asked])


def _light(trial: StoredTrial) -> StoredTrial:
    files: Mapping[str, bytes] = {
        name: data for name, data in trial.files.items() if not _HEAVY.fullmatch(name)
    }
    return StoredTrial(trial.id, files)
