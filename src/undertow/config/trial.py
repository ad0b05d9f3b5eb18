"""A trial: one network on one data set, trained and measured.

Its sections are defined where the things are that they configure: data sets in ``data/``, models in ``models/``,
training in ``training/recipe.py``, measures in ``probe/``. Here they are put together. A ``TrialConfig`` is *resolved*:
every default is written out, the data's seed included, so that the hash of its canonical JSON is the trial's
identity. Unknown keys and bad values raise one ``ConfigError``.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self, Union

from pydantic import Field, model_validator

from undertow.config.axes import axis_path, put
from undertow.config.probe_config import ProbeConfig
from undertow.core.canonical import digest, dumps
from undertow.core.errors import ConfigError
from undertow.core.sections import Section, Seed
from undertow.core.validation import validate
from undertow.data.data_section import DataSection
from undertow.data.data_sets import DATA_SETS
from undertow.models import MODELS, ModelSection
from undertow.training.recipe import TrainingSection

__all__ = ["DataConfig", "ModelConfig", "TrialConfig", "validate"]

if TYPE_CHECKING:
    DataConfig = DataSection
    ModelConfig = ModelSection
else:
    DataConfig = Annotated[Union[DATA_SETS], Field(discriminator="name")]  # noqa: UP007
    ModelConfig = Annotated[Union[MODELS], Field(discriminator="name")]  # noqa: UP007


class TrialConfig(Section):
    """One network on one data set, trained and measured: the whole of what decides its records."""

    data: DataConfig
    model: ModelConfig
    training: TrainingSection = TrainingSection()
    probe: ProbeConfig = ProbeConfig()
    seed: Seed = 0

    @model_validator(mode="after")
    def _resolve(self) -> Self:
        # Frozen for everyone else; here the object is still being made.
        object.__setattr__(self, "data", self.data.with_seed(self.seed).pinned())
        for split in (self.probe.split, *self.probe.splits):
            self.data.check_split(split)
        self.model.check(self.data, self.training.loss)
        return self

    @model_validator(mode="after")
    def _keep_its_measures(self) -> Self:
        """Without the measures that are only for other trials; the rest no longer say for which they are."""
        measures = self.probe.measures
        if not any("only" in each for each in measures):
            return self
        document = self.model_dump(mode="json")
        kept = tuple(
            {key: value for key, value in each.items() if key != "only"}
            for each in measures
            if _is_for(document, each)
        )
        if not kept:
            raise ValueError("every measure is only for other trials: give one without only, such as 'loss'")
        object.__setattr__(self, "probe", self.probe.model_copy(update={"measures": kept}))
        return self

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON of the resolved configuration."""
        return digest(dumps(self.model_dump(mode="json")))

    @property
    def id(self) -> str:
        """The trial's name on disk: the first 16 digits of its digest."""
        return self.digest[:16]


def _is_for(trial: dict[str, Any], measure: dict[str, Any]) -> bool:
    """Whether a trial has the settings that a measure is only for; settings no trial can have are an error."""
    wanted, table = trial, f"{measure['name']}'s only"
    for axis, value in measure.get("only", {}).items():
        wanted = put(wanted, axis_path(axis, trial, of=table), value)
    if wanted != trial:
        try:
            validate(TrialConfig, put(wanted, ("probe", "measures"), ["loss"]))
        except ConfigError as error:
            raise ValueError(f"{table}: {error}") from None
    return wanted == trial
