"""What a configuration says of its data, and how they are made of it.

Each data set has its section in the file that makes it, and a line in ``data/data_sets.py``. A section's ``build``
gives the points trained on, ``points`` those that are measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field

from undertow.core.errors import nearest
from undertow.core.sections import Count, Section, Seed, Text, WithLaterOptions
from undertow.core.streams import Stream, stream
from undertow.data.dataset import Dataset

__all__ = ["DataSection", "DrawnData", "FileData", "Split", "SplitData", "section_named"]

Split = Literal["train", "test", "all"]
Digest = Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{64}$")]


class DataSection(Section, ABC):
    """The settings of a data set, which can be made of them."""

    name: str

    @abstractmethod
    def build(self) -> Dataset:
        """The points trained on, every input as one row; of a section whose seed is known."""

    @abstractmethod
    def points(self, dataset: Dataset, *, split: Split | None, limit: int | None) -> Dataset:
        """What is measured: the first ``limit`` of the points trained on, or of another ``split``."""

    def with_seed(self, seed: int) -> Self:  # noqa: ARG002
        """With a trial's seed, where points are drawn and have no seed of their own."""
        return self

    def pinned(self) -> Self:
        """With what decides the content of files that may change, where they are here."""
        return self

    def check_split(self, split: Split | None) -> None:
        """A ``ValueError`` where there is no such split."""

    def files_read(self, split: Split | None) -> set[tuple[str, Split]]:  # noqa: ARG002
        """Which splits of which data sets in files it takes to build it, and its points of ``split``."""
        return set()

    def least_shape(self) -> tuple[int, int]:
        """Rows and columns of the largest matrix that the data consist of; (0, 1) where that is not known."""
        return 0, 1


class DrawnData(DataSection):
    """Points drawn from a distribution that needs no more than a seed; the split "test" draws new ones."""

    n: Count = 1000
    seed: Seed | None = None

    @abstractmethod
    def draw(self, n: int, seed: int, *, like: Dataset | None) -> Dataset:
        """n points; ``like`` are those trained on, where others of the same distribution are wanted."""

    def build(self) -> Dataset:
        return self.draw(self.n, self.stream("data"), like=None)

    def points(self, dataset: Dataset, *, split: Split | None, limit: int | None) -> Dataset:
        if split == "test":
            return self.draw(limit or self.n, self.stream("test"), like=dataset)
        return _first(dataset, limit)

    def stream(self, named: Stream) -> int:
        """The seed of one use of the data's seed."""
        assert self.seed is not None, "a trial's configuration is resolved"
        return stream(self.seed, named)

    def with_seed(self, seed: int) -> Self:
        return self if self.seed is not None else self.model_copy(update={"seed": seed})

    def check_split(self, split: Split | None) -> None:
        if split == "all":
            raise ValueError(
                f"{self.name} has the points trained on and new ones: write probe.split = 'test'"
            )


class SplitData(DataSection):
    """Data that come in splits; another split is the same data set, asked for another one.

    Of the split "all", ``details["seen"]`` tells those trained on from the others.
    """

    split: Split = "train"
    limit: Count | None = None

    def points(self, dataset: Dataset, *, split: Split | None, limit: int | None) -> Dataset:
        if split is None:
            return _first(dataset, limit)
        chosen = self.model_copy(update={"split": split, "limit": limit}).build()
        if split != "all" or self.split != "train":
            return chosen
        seen = torch.arange(len(chosen)) < len(dataset)  # all is train, then test
        return chosen.with_content(
            details={**chosen.details, "seen": seen}, aligned={*chosen.aligned, "seen"}
        )


def section_named(name: Any) -> type[DataSection]:
    """The kind of data set that goes by a name, for sections that are made of another one.

    Those in ``data/data_sets.py`` are all known by the time a configuration is read.
    """
    kinds = {each: kind for kind in _kinds(DataSection) for each in _names(kind)}
    if name not in kinds:
        raise ValueError(f"there is no data set {name!r}: {nearest(str(name), kinds)}")
    return kinds[name]


def _kinds(above: Any) -> Iterator[type[DataSection]]:
    for kind in above.__subclasses__():
        yield kind
        yield from _kinds(kind)


def _names(kind: type[DataSection]) -> tuple[str, ...]:
    return getattr(kind.model_fields["name"].annotation, "__args__", ())


class FileData(WithLaterOptions, SplitData):
    """Data in files, of which tables may have rows without a label: left out, or of the class ``unlabelled_as``.

    A file whose content is not fixed by a published checksum has its own, ``sha256``, among the settings: the trials of
    a file that was changed are other trials.
    """

    LATER = ("unlabelled_as", "sha256")

    unlabelled_as: Text | None = None
    sha256: Digest | None = None

    @abstractmethod
    def fingerprint(self) -> str | None:
        """SHA-256 of the file as it is now; None where a published checksum fixes it, or where it is not here."""

    def pinned(self) -> Self:
        if self.sha256 is not None:
            return self
        found = self.fingerprint()
        return self if found is None else self.model_copy(update={"sha256": found})


def _first(dataset: Dataset, limit: int | None) -> Dataset:
    return dataset if limit is None else dataset.take(torch.arange(min(limit, len(dataset))))
