"""A study's grid: which trials it asks for, and which of them are trained together.

Both follow from the study's configuration alone, never from what happens to be left over: an interrupted
sweep therefore trains the very same batches as an undisturbed one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, field_validator

from undertow.config.axes import axis_path, put
from undertow.config.probe_config import ProbeConfig
from undertow.config.study_names import OWN_SEEDS, part_label, whole_label
from undertow.config.trial import DataConfig, ModelConfig, TrialConfig
from undertow.core.canonical import digest, dumps
from undertow.core.config_errors import shown
from undertow.core.errors import ConfigError
from undertow.core.sections import EVERY_OPTION, Count, Section, Seed, Switch
from undertow.core.validation import validate
from undertow.probe.records import COLUMNS
from undertow.training.recipe import TrainingSection

__all__ = ["GridPoint", "Group", "StudyConfig"]

Slug = Annotated[str, Field(strict=True, pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]

_LARGEST = 100_000
_OWN = (("seed",), ("training", "learning_rate"), ("model", "init"))
"""What may differ between networks that are trained as one batch."""
_OWN_DATA = (("data", "seed"),)


@dataclass(frozen=True)
class GridPoint:
    """One trial with its place in the grid."""

    trial: TrialConfig
    columns: dict[str, Any]


@dataclass(frozen=True)
class Group:
    """Trials that share shapes, schedule, and data or their distribution: trained and resumed as one batch."""

    trials: tuple[TrialConfig, ...]

    @cached_property
    def id(self) -> str:
        """Follows from the members and their order."""
        return digest(dumps([trial.digest for trial in self.trials]))[:16]

    @property
    def halves(self) -> tuple[Group, Group]:
        """The first and the second half of the trials, for where all of them at once are too many."""
        middle = (len(self.trials) + 1) // 2
        return Group(self.trials[:middle]), Group(self.trials[middle:])


class StudyConfig(Section):
    """A grid of trials: one trial's settings, and for each axis the values it takes.

    ``seed_set`` names the seeds where they are others than the study's own: those are a replication, judged by itself.
    With ``own_data`` networks are trained as one batch also where each has drawn data of its own, of one shape: for
    small networks, whose steps are short.
    """

    name: Slug = "study"
    variant: Slug = "own"
    scale: Slug = "own"
    part: Slug = "main"
    seed_set: Slug = OWN_SEEDS
    data: DataConfig
    model: ModelConfig
    training: TrainingSection = TrainingSection()
    probe: ProbeConfig = ProbeConfig()
    seed: Seed = 0
    grid: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    group_size: Count = 64
    own_data: Switch = False

    @field_validator("grid", mode="before")
    @classmethod
    def _lists(cls, grid: Any) -> Any:
        if not isinstance(grid, Mapping):
            raise ValueError(f"{shown(grid)} is no grid; write for example width = [16, 64]")
        for axis, values in grid.items():
            if not isinstance(values, list | tuple) or not values:
                raise ValueError(f"{shown(axis)} = {shown(values)} is no list; write for example [16, 64]")
        return grid

    @property
    def label(self) -> str:
        """The study's name on disk; a study of one part only need not name it."""
        return part_label(self.whole, self.part)

    @property
    def whole(self) -> str:
        """What all parts of a study have in common: its name, variant and scale, and other seeds than its own."""
        return whole_label(self.name, self.variant, self.scale, self.seed_set)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The values of the grid's axis of seeds, or the one seed of all its trials."""
        return tuple(self.grid.get("seed", (self.seed,)))

    @cached_property
    def points(self) -> tuple[GridPoint, ...]:
        """The trials in the grid's order: the last axis varies fastest."""
        size = math.prod(len(values) for values in self.grid.values())
        if size > _LARGEST:
            raise ConfigError(f"the grid has {size:,} trials; {_LARGEST:,} are the most one study takes.")
        base = self.model_dump(mode="json", include=set(TrialConfig.model_fields))
        nameable = self.model_dump(mode="json", include=set(TrialConfig.model_fields), context=EVERY_OPTION)
        paths = [axis_path(axis, nameable) for axis in self.grid]
        columns = _columns(paths)
        points: dict[str, GridPoint] = {}
        for values in itertools.product(*self.grid.values()):
            document = base
            for path, value in zip(paths, values, strict=True):
                document = put(document, path, value)
            trial = validate(TrialConfig, document)
            points.setdefault(trial.id, GridPoint(trial, dict(zip(columns, values, strict=True))))
        return tuple(points.values())

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The grid's trials, gathered into batches of at most ``group_size``."""
        shared: dict[bytes, list[TrialConfig]] = {}
        for point in self.points:
            document = point.trial.model_dump(mode="json")
            for path in (*_OWN, *_OWN_DATA) if self.own_data else _OWN:
                document = put(document, path, None)
            shared.setdefault(dumps(document), []).append(point.trial)
        return tuple(
            Group(tuple(trials[start : start + self.group_size]))
            for trials in shared.values()
            for start in range(0, len(trials), self.group_size)
        )


def _columns(paths: list[tuple[str, ...]]) -> list[str]:
    """The axes' names in a frame: the last part of each path, or all of it where that would be unclear."""
    last = [path[-1] for path in paths]
    taken = {*COLUMNS, "name", "study", "variant", "scale", "part", "status"}
    return [
        name if last.count(name) == 1 and name not in taken else "_".join(path)
        for name, path in zip(last, paths, strict=True)
    ]
