"""What a study is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from undertow.core.errors import ConfigError, nearest
from undertow.studies.kit.claim import Claim

if TYPE_CHECKING:
    import altair
    import polars

    from undertow.config.grid import StudyConfig

__all__ = ["SCALES", "Figure", "Part", "Scale", "Study"]

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "laptop", "paper")
Part = Callable[[Scale, str], dict[str, Any] | None]
"""From a scale and a variant to the settings of one grid of trials; None where that variant has no such part."""


@dataclass(frozen=True)
class Figure:
    """A figure of a paper: its name for files, what it shows, and how it is drawn from the records of ``parts``."""

    name: str
    caption: str
    draw: Callable[[polars.DataFrame], altair.TopLevelMixin]
    parts: tuple[str, ...] = ("main",)


@dataclass(frozen=True)
class Study:
    """Grids of trials at three scales, the figures drawn from their records, the claims tested on them.

    ``costs`` says for each scale how long it takes and where; ``variants`` what each one means. Each of the
    ``parts`` is one grid: a study with one kind of trial calls it ``main``. ``summary`` tells a newcomer in
    two sentences what the paper says; ``tour`` is the scale and the parts (none named: all) that the tour shows.
    """

    name: str
    title: str
    source: str
    costs: Mapping[Scale, str]
    variants: Mapping[str, str]
    parts: Mapping[str, Part]
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    summary: str = ""
    tour: tuple[Scale, tuple[str, ...]] = ("smoke", ())

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
        for part in parts or self.parts:
            own = self.parts[part](known, variant)
            if own is not None:
                found[part] = {"name": self.name, "variant": variant, "scale": scale, "part": part, **own}
        if not found:
            raise ConfigError(f"the variant {variant} of {self.name} has no part {' or '.join(parts)}.")
        return found

    def grids(self, scale: str, variant: str, *, parts: Sequence[str] = ()) -> tuple[StudyConfig, ...]:
        """The same, validated: what can be run."""
        from undertow.config.grid import StudyConfig  # torch: studies are listed and judged without it
        from undertow.core.validation import validate

        settings = self.settings(scale, variant, parts=parts)
        return tuple(validate(StudyConfig, each) for each in settings.values())
