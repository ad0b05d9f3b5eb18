"""Data sets in files that configurations know by name."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from undertow.data.catalogue import CATALOGUE, IMAGES
from undertow.data.data_section import FileData, Split
from undertow.data.dataset import Dataset
from undertow.data.loading import load
from undertow.data.normalisation import Normalisation
from undertow.data.table_files import fingerprint_of_entry
from undertow.data.tasks import TaskName, relabel

__all__ = ["NamedData"]

if TYPE_CHECKING:
    Name = str
else:
    Name = Literal[tuple(CATALOGUE)]


class NamedData(FileData):
    """A data set that ``undertow data list`` knows; see ``undertow.data.load``."""

    name: Name
    normalise: Normalisation | None = None
    task: TaskName | None = None

    def build(self) -> Dataset:
        return _kept(self) if self.name in IMAGES else _loaded(self)

    def fingerprint(self) -> str | None:
        return fingerprint_of_entry(CATALOGUE[self.name])

    def files_read(self, split: Split | None) -> set[tuple[str, Split]]:
        fitted: set[Split] = {"train"} if self.normalise == "standardised" else set()
        return {(self.name, each) for each in {self.split, split, *fitted} if each is not None}


def _loaded(section: NamedData) -> Dataset:
    loaded = load(
        section.name,
        split=section.split,
        limit=section.limit,
        normalise=section.normalise,
        unlabelled_as=section.unlabelled_as,
        sha256=section.sha256,
        flatten=True,
    )
    return relabel(loaded, section.task)


# The groups of a sweep share their data. Only sets whose content is fixed by checksums are kept: a file of the
# user's may change between two calls.
_kept = lru_cache(maxsize=2)(_loaded)
