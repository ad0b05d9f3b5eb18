"""A study as a store has it: a document that is read without the packages that could run it again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from undertow.config.study_names import OWN_SEEDS, part_label, whole_label
from undertow.core.errors import StoreError

__all__ = ["OWN_LOOP", "StoredStudy", "distinct", "parse_study"]

OWN_LOOP = "own loop"
"""The kind of a study whose trials somebody's own loop trained: it can be read and not run."""

_TRIAL = re.compile(r"[0-9a-f]{16}")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_NAMES = ("name", "variant", "scale", "part", "seed_set")


@dataclass(frozen=True)
class StoredStudy:
    """A part of a study in the store: its settings as they were written, and its trials with their grid columns.

    Whoever runs it again validates ``settings`` first (``undertow.config.grid.StudyConfig``).
    """

    settings: Mapping[str, Any]
    trials: tuple[tuple[str, dict[str, Any]], ...]

    @property
    def name(self) -> str:
        return str(self.settings["name"])

    @property
    def can_be_run(self) -> bool:
        """Whether undertow trained its trials; those of somebody's own loop it only keeps."""
        return self.settings.get("kind") != OWN_LOOP

    @property
    def variant(self) -> str:
        return str(self.settings["variant"])

    @property
    def scale(self) -> str:
        return str(self.settings["scale"])

    @property
    def part(self) -> str:
        return str(self.settings["part"])

    @property
    def seed_set(self) -> str:
        """The set of seeds that a replication is on."""
        return str(self.settings.get("seed_set", OWN_SEEDS))

    @property
    def whole(self) -> str:
        """What all parts of the study have in common."""
        return whole_label(self.name, self.variant, self.scale, self.seed_set)

    @property
    def label(self) -> str:
        """The name of its file."""
        return part_label(self.whole, self.part)

    @property
    def grid(self) -> dict[str, list[Any]]:
        """The axes of the grid, each with its values."""
        return dict(self.settings.get("grid", {}))

    @property
    def seeds(self) -> tuple[int, ...]:
        """The values of the grid's axis of seeds, or the one seed of all its trials."""
        return tuple(self.grid.get("seed", (self.settings.get("seed", 0),)))


def parse_study(document: dict[str, Any], path: Path) -> StoredStudy:
    """The study that a file's document describes; raises ``StoreError`` when it is none."""
    try:
        trials = tuple((str(trial), dict(columns)) for trial, columns in document["trials"])
        study = StoredStudy(dict(document["study"]), trials)
        names = [str(study.settings.get(name, OWN_SEEDS)) for name in _NAMES]
        numbers = all(isinstance(seed, int) for seed in study.seeds)
    except (KeyError, TypeError, ValueError):
        raise StoreError(f"{path} is damaged: it holds no study.") from None
    if not numbers or not all(_NAME.fullmatch(name) for name in names):
        raise StoreError(f"{path} is damaged: what it holds is not named as a study is.")
    if not all(_TRIAL.fullmatch(trial) for trial, _ in trials):
        raise StoreError(f"{path} is damaged: its trials are not named as trials are.")
    return study


def distinct(
    studies: Iterable[tuple[str, StoredStudy]], *, copies: dict[str, str] | None = None
) -> list[StoredStudy]:
    """The studies, each once, given with the names of their files.

    A file that carries another name than the study in it is a copy that somebody made by hand, and is left out;
    ``copies`` is told of which study. One that was only renamed stays.
    """
    files: dict[str, dict[str, StoredStudy]] = {}
    for label, study in studies:
        files.setdefault(study.label, {})[label] = study
    found = {}
    for name, labels in files.items():
        kept = name if name in labels else min(labels)
        found[name] = labels[kept]
        if copies is not None:
            copies |= {label: name for label in labels if label != kept}
    return [found[name] for name in sorted(found)]
