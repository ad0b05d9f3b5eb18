"""How measures are found by their names: a line for each, whose class is imported when it is asked for.

Whoever reads records (reports, the live page) needs the names of measures and which readings are bounds, and
neither torch nor the measures themselves.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from undertow.measures.named_measure import NamedMeasure

__all__ = ["Listed", "MeasureRegistry"]


@dataclass(frozen=True)
class Listed:
    """A measure's line in the registry.

    ``name`` is what probes' records and TOML files call it, ``section`` where its class is, ``module:Class``. Where its
    readings are bounds, ``truth`` says on which side of them the truth lies, "above" or "below": of all readings,
    or of those whose keys match a pattern, the first that does.

    >>> Listed("mine", "my.module:Mine", truth={"upper@*": "below"}).side("upper@0.5")
    'below'
    """

    name: str
    section: str
    truth: str | Mapping[str, str | None] | None = None

    def load(self) -> type[NamedMeasure]:
        """The measure's class."""
        module, _, kind = self.section.partition(":")
        found: type[NamedMeasure] = getattr(importlib.import_module(module), kind)
        return found

    def side(self, key: str) -> str | None:
        """On which side of the reading of that key the truth lies; None where it may be either."""
        if not isinstance(self.truth, Mapping):
            return self.truth
        return next((side for pattern, side in self.truth.items() if fnmatchcase(key, pattern)), None)


class MeasureRegistry(Mapping[str, "type[NamedMeasure]"]):
    """Measures' classes by their names, in the order of their lines."""

    def __init__(self, *lines: Listed) -> None:
        self.lines = {line.name: line for line in lines}

    def __getitem__(self, name: str) -> type[NamedMeasure]:
        return self.lines[name].load()

    def __contains__(self, name: object) -> bool:
        return name in self.lines  # without importing it

    def __iter__(self) -> Iterator[str]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)
