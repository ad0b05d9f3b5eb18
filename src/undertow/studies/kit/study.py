"""What a study is made of, and where it is found.

A study is a package with a ``STUDY``. What it has is found by name: ``PARTS`` in ``parts.py``, ``CLAIMS`` and, where a
paper printed numbers, ``PUBLISHED`` in ``claims.py``, ``FIGURES`` in ``figures.py``; a large study is a folder of
topics, each with as many of these files as it needs. They are imported when they are asked for: settings need no
tables, and claims no drawing.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from undertow.core.errors import ConfigError, nearest
from undertow.studies.kit.claim import Claim
from undertow.studies.kit.lacking import LackingDataError
from undertow.studies.kit.statements import Figure, Published

if TYPE_CHECKING:
    from undertow.config.grid import StudyConfig

__all__ = ["SCALES", "Figure", "Part", "Scale", "Study"]

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "laptop", "paper")
Part = Callable[[Scale, str], dict[str, Any] | None]
"""From a scale and a variant to the settings of one grid of trials; None where that variant has no such part.

Where its data are not here it may raise ``LackingDataError``: the study goes on without it.
"""


@dataclass(frozen=True)
class Study:
    """Grids of trials at three scales, the figures drawn from their records, the claims tested on them.

    ``costs`` says for each scale how long it takes and where; ``variants`` what each one means. ``summary`` tells a
    newcomer in two sentences what the paper says; ``tour`` is the scale and the parts (none named: all) that the tour
    shows; ``own_data`` is the part that runs on a table of the reader's, and on nothing else. ``home`` is the study's
    package, ``topics`` are those inside it that have parts, claims or figures; without any it has them itself.
    """

    name: str
    title: str
    source: str
    costs: Mapping[Scale, str]
    variants: Mapping[str, str]
    home: str = ""
    topics: tuple[str, ...] = ()
    summary: str = ""
    tour: tuple[Scale, tuple[str, ...]] = ("smoke", ())
    own_data: str = ""

    @cached_property
    def parts(self) -> Mapping[str, Part]:
        """Every grid by name; a study with one kind of trial calls it ``main``."""
        found: dict[str, Part] = {}
        for part in (part for parts in self._stated("parts", "PARTS") for part in parts.items()):
            if part[0] in found:
                raise TypeError(f"the study {self.name} has two parts {part[0]!r}")
            found.update([part])
        return found

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Every claim, in the order of their letters; those of one letter as the topics have them."""
        found = tuple(claim for claims in self._stated("claims", "CLAIMS") for claim in claims)
        self._require("claims", [claim.id for claim in found], found)
        return tuple(sorted(found, key=lambda claim: claim.id.partition(".")[0]))

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        """Every figure, topic by topic."""
        found = tuple(figure for figures in self._stated("figures", "FIGURES") for figure in figures)
        self._require("figures", [figure.name for figure in found], found)
        return found

    @cached_property
    def published(self) -> tuple[Published, ...]:
        """Every number that a paper printed and that ours can stand beside."""
        found = tuple(number for numbers in self._stated("claims", "PUBLISHED") for number in numbers)
        self._require("published numbers", [number.what for number in found], found)
        return found

    def but(self, **instead: Any) -> Study:
        """The same study with other ``parts``, ``claims``, ``figures`` or ``published``, or another name and so on."""
        fields = Study.__dataclass_fields__
        study = replace(self, **{name: value for name, value in instead.items() if name in fields})
        found = {name: value for name, value in {**vars(self), **instead}.items() if name not in fields}
        vars(study).update(found)  # what is there is not looked for
        return study

    def settings(self, scale: str, variant: str, *, parts: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
        """The settings of the study's parts, or of those named, at a scale, in a variant, before they are validated."""
        if variant not in self.variants:
            hint = nearest(variant, self.variants)
            raise ConfigError(f"the study {self.name} has no variant {variant!r}; {hint}")
        for part in parts:
            if part not in self.parts:
                raise ConfigError(f"the study {self.name} has no part {part!r}; {nearest(part, self.parts)}")
        known = next((each for each in SCALES if each == scale), None)
        if known is None:
            raise ConfigError(f"there is no scale {scale!r}; {nearest(scale, SCALES)}")
        found = {}
        for part in parts or (part for part in self.parts if part != self.own_data):
            try:
                own = self.parts[part](known, variant)
            except LackingDataError as lacking:
                if part in parts:
                    raise ConfigError(
                        f"the part {part} of {self.name} needs data: {lacking.sentence}"
                    ) from None
                continue
            if own is not None:
                found[part] = {"name": self.name, "variant": variant, "scale": scale, "part": part, **own}
        if not found:
            raise ConfigError(f"the variant {variant} of {self.name} has no part {' or '.join(parts)}.")
        return found

    def grids(self, scale: str, variant: str, *, parts: Sequence[str] = ()) -> tuple[StudyConfig, ...]:
        """The same, validated: what can be run."""
        return tuple(map(_validated, self.settings(scale, variant, parts=parts).values()))

    def grid_on(self, table: Mapping[str, Any], scale: str, variant: str) -> StudyConfig:
        """The part that runs on a table of the reader's; ``table`` has its path, its label and what else data have."""
        if not self.own_data:
            raise ConfigError(f"the study {self.name} does not run on tables of your own.")
        settings = self.settings(scale, variant, parts=[self.own_data])[self.own_data]
        return _validated({**settings, "data": {**settings["data"], **table}})

    def _stated(self, file: str, name: str) -> list[Any]:
        """``name`` of the file of every topic that has it."""
        homes = [f"{self.home}.{topic}" for topic in self.topics] or [self.home]
        modules = [f"{home}.{file}" for home in homes if self.home]
        found = [importlib.import_module(module) for module in modules if importlib.util.find_spec(module)]
        return [getattr(module, name) for module in found if hasattr(module, name)]

    def _require(self, kind: str, names: Sequence[str], found: Sequence[Claim | Figure | Published]) -> None:
        """A study that names what it has not is a mistake of ours, to be seen at once."""
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise TypeError(f"the study {self.name} has two {kind} {twice[0]!r}")
        for name, each in zip(names, found, strict=True):
            unknown = set(each.parts) - self.parts.keys()
            if unknown:
                raise TypeError(
                    f"{name} of the study {self.name} reads a part {min(unknown)!r} that is not there"
                )


def _validated(settings: Mapping[str, Any]) -> StudyConfig:
    from undertow.config.grid import StudyConfig  # torch: studies are listed and judged without it
    from undertow.core.validation import validate

    return validate(StudyConfig, settings)
