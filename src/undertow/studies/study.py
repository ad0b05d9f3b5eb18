"""What a study is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from undertow.errors import ConfigError, nearest
from undertow.runs.grid import StudyConfig
from undertow.studies.claims import Claim

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["SCALES", "Figure", "Scale", "Study"]

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "laptop", "paper")


@dataclass(frozen=True)
class Figure:
    """A figure of a paper: its name for files, what it shows, and how it is drawn from the records."""

    name: str
    caption: str
    draw: Callable[[polars.DataFrame], altair.TopLevelMixin]


@dataclass(frozen=True)
class Study:
    """A grid of trials at three scales, the figures drawn from their records, the claims tested on them.

    ``costs`` says for each scale how long it takes and where; ``variants`` what each one means.
    """

    name: str
    title: str
    source: str
    costs: Mapping[Scale, str]
    variants: Mapping[str, str]
    settings: Callable[[Scale, str], dict[str, Any]]
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]

    def grid(self, scale: str, variant: str) -> StudyConfig:
        """The study's configuration at a scale, in a variant."""
        from undertow.runs.config import validate

        if variant not in self.variants:
            hint = nearest(variant, self.variants)
            raise ConfigError(f"the study {self.name} has no variant {variant!r}; {hint}")
        for known in SCALES:
            if known == scale:
                names = {"name": self.name, "variant": variant, "scale": scale}
                return validate(StudyConfig, {**names, **self.settings(known, variant)})
        raise ConfigError(f"there is no scale {scale!r}; {nearest(scale, SCALES)}")
