"""What studies are called, on disk and on the command line; known without the packages that run them."""

from __future__ import annotations

from typing import Protocol

__all__ = ["OWN_SEEDS", "NamedStudy", "part_label", "seed_options", "whole_label"]

OWN_SEEDS = "own"
"""The set of seeds that a study's settings name."""


class NamedStudy(Protocol):
    """A part of a study, as it is asked for or as it is stored."""

    @property
    def name(self) -> str: ...
    @property
    def variant(self) -> str: ...
    @property
    def scale(self) -> str: ...
    @property
    def part(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def seeds(self) -> tuple[int, ...]: ...


def whole_label(name: str, variant: str, scale: str, seed_set: str = OWN_SEEDS) -> str:
    """What all parts of a study have in common: its name, variant and scale, and other seeds than its own.

    >>> whole_label("margin", "paper", "smoke"), whole_label("margin", "paper", "smoke", "100-109")
    ('margin.paper.smoke', 'margin.paper.smoke.seeds-100-109')
    """
    other = "" if seed_set == OWN_SEEDS else f".seeds-{seed_set}"
    return f"{name}.{variant}.{scale}{other}"


def part_label(whole: str, part: str) -> str:
    """The name of a part's file; a study of one part only need not name it.

    >>> part_label("margin.paper.smoke", "main"), part_label("margin.paper.smoke", "width")
    ('margin.paper.smoke', 'margin.paper.smoke.width')
    """
    return whole if part == "main" else f"{whole}.{part}"


def seed_options(seed_set: str) -> list[str]:
    """The options of `undertow reproduce` that ask for a set of seeds.

    >>> seed_options("100-109"), seed_options("from-100"), seed_options("own")
    (['--seeds', '10', '--first-seed', '100'], ['--first-seed', '100'], [])
    """
    if seed_set == OWN_SEEDS:
        return []
    first, _, last = seed_set.partition("-")
    if first == "from":
        return ["--first-seed", last]
    return ["--seeds", str(int(last) - int(first) + 1), "--first-seed", first]
