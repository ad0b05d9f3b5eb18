"""Parts on patients, with those in it who were lost from sight before the question was answered."""

from __future__ import annotations

from collections.abc import Sequence

from undertow.config.grid import StudyConfig
from undertow.core.errors import ConfigError, nearest
from undertow.core.validation import validate
from undertow.data.catalogue import CATALOGUE, OUTCOMES

__all__ = ["with_outcome"]


def with_outcome(parts: Sequence[StudyConfig], outcome: str) -> tuple[StudyConfig, ...]:
    """The parts on patients with everybody in them: those without a label are of the class ``outcome``.

    Two guesses, "event" and "event-free", bound what the truth could be. Parts on other data are left as they are.
    """
    if outcome not in OUTCOMES:
        raise ConfigError(f"patients without a label cannot be {outcome!r}; {nearest(outcome, OUTCOMES)}")
    patients = [name for name, entry in CATALOGUE.items() if entry.outcomes is not None]
    if not any(part.data.name in patients for part in parts):
        raise ConfigError(
            f"unlabelled-as is for tables and for parts on patients ({', '.join(patients)}), and none was asked for: "
            f"write --data table or --part {patients[0]} too."
        )
    return tuple(_with(part, outcome) if part.data.name in patients else part for part in parts)


def _with(part: StudyConfig, outcome: str) -> StudyConfig:
    document = part.model_dump(mode="json")
    return validate(StudyConfig, {**document, "data": {**document["data"], "unlabelled_as": outcome}})
