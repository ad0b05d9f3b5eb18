"""What a run needs is brought before it begins: said once, by one process, and not by each that trains."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape

from undertow.config.grid import StudyConfig
from undertow.config.trial import TrialConfig
from undertow.core.errors import DataError
from undertow.data.catalogue import CATALOGUE, RawFile
from undertow.data.offline import offline
from undertow.data.sources import obtain
from undertow.store.store import Store
from undertow.studies.kit.presence import present

__all__ = ["bring_data"]


def bring_data(store: Store, studies: Sequence[StudyConfig], console: Console) -> None:
    """Download the files that trials to come will read, unless they are here.

    Offline, what is not here is a ``DataError``. Online, what cannot be had is said, and the trials that need it
    fail by themselves: the others go on.
    """
    missing = (point.trial for study in studies for point in study.points if point.trial.id not in store)
    for name, files in files_of(missing).items():
        if present(name):  # a study has asked already, and files are read through once
            continue
        try:
            obtain(CATALOGUE[name], files)
        except DataError as error:
            if offline():
                raise
            console.print(escape(str(error)), style="yellow")
            os.environ["UNDERTOW_OFFLINE"] = "1"  # so that no group waits for the same servers again


def files_of(trials: Iterable[TrialConfig]) -> dict[str, tuple[RawFile, ...]]:
    """Data set → those of its files that the trials read."""
    asked = {
        each for trial in trials for split in trial.probe.splits for each in trial.data.files_read(split)
    }
    wanted: dict[str, dict[str, RawFile]] = {}
    for name, split in sorted(asked):
        wanted.setdefault(name, {}).update({file.name: file for file in CATALOGUE[name].files_for(split)})
    return {name: tuple(files.values()) for name, files in wanted.items() if files}
