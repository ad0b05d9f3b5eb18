"""A table of the user's own as data."""

from __future__ import annotations

from typing import Literal

from undertow.core.sections import Text
from undertow.data.data_section import FileData
from undertow.data.dataset import Dataset
from undertow.data.loading import load
from undertow.data.table_files import fingerprint

__all__ = ["TableData"]


class TableData(FileData):
    """A CSV, Parquet or NPZ file with a column of classes; see ``undertow.data.load``."""

    name: Literal["table"]
    path: Text
    label: Text
    features: tuple[Text, ...] | None = None
    normalise: Literal["unit-norm", "standardised"] | None = None

    def build(self) -> Dataset:
        return load(
            self.path,
            label=self.label,
            features=self.features,
            unlabelled_as=self.unlabelled_as,
            sha256=self.sha256,
            split=self.split,
            limit=self.limit,
            normalise=self.normalise,
            flatten=True,
        )

    def fingerprint(self) -> str | None:
        return fingerprint(self.path)
