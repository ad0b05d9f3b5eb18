"""Data sets that are made of another one, which their settings hold under ``of``."""

from __future__ import annotations

from typing import Any, Self

from pydantic import SerializeAsAny, ValidationError, field_validator

from undertow.core.sections import Seed
from undertow.core.validation import refusal
from undertow.data.data_section import DataSection, Split, section_named

__all__ = ["DerivedData"]


class DerivedData(DataSection):
    """Made of the points of ``of``, any data set by its table; both share a seed."""

    of: SerializeAsAny[DataSection]
    seed: Seed | None = None

    @field_validator("of", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """Any data set by its table."""
        if not isinstance(value, dict):
            return value
        kind = section_named(value.get("name"))
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            raise ValueError(str(refusal(kind, error, value))) from None

    def with_seed(self, seed: int) -> Self:
        own = seed if self.seed is None else self.seed
        return self.model_copy(update={"seed": own, "of": self.of.with_seed(own)})

    def pinned(self) -> Self:
        return self.model_copy(update={"of": self.of.pinned()})

    def check_split(self, split: Split | None) -> None:
        self.of.check_split(split)

    def files_read(self, split: Split | None) -> set[tuple[str, Split]]:
        return self.of.files_read(split)

    def least_shape(self) -> tuple[int, int]:
        return self.of.least_shape()
