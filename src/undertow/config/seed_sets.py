"""Sets of seeds: a study's own, and others on which it is replicated.

Seeds that are added after a look at the others would be looked for until they agree. So another set is another study
on disk, named by its seeds, and is judged by itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from undertow.config.grid import StudyConfig
from undertow.config.study_names import NamedStudy
from undertow.core.errors import ConfigError
from undertow.core.validation import validate

__all__ = ["refuse_overlap", "replicated"]

_LARGEST = 2**32


def replicated(
    studies: Iterable[StudyConfig], *, count: int | None = None, first: int | None = None
) -> tuple[tuple[StudyConfig, ...], tuple[str, ...]]:
    """The parts of a study on ``count`` seeds from ``first`` on, and the names of parts that have no axis of seeds.

    Without a count each part has as many seeds as it has by itself; without a first seed they begin where its own do.
    Seeds that are no others leave the study as it is.
    """
    for name, number, least in (("--seeds", count, 1), ("--first-seed", first, 0)):
        if number is not None and not least <= number < _LARGEST:
            raise ConfigError(f"{name} {number}: it takes a whole number of {least} or more.")
    found, changed, without = [], False, []
    for study in studies:
        if "seed" not in study.grid:
            without.append(study.part)
            continue
        own = study.seeds
        start = own[0] if first is None else first
        seeds = tuple(range(start, start + (len(own) if count is None else count)))
        changed |= seeds != own
        found.append((study, seeds))
    if not found:
        raise ConfigError(
            f"{' and '.join(without)} has no axis of seeds: there are no other seeds to run it on."
        )
    if not changed:
        return tuple(study for study, _ in found), tuple(without)
    start = found[0][1][0]
    name = f"{start}-{start + count - 1}" if count is not None else f"from-{start}"
    return tuple(_on(study, seeds, name) for study, seeds in found), tuple(without)


def _on(study: StudyConfig, seeds: tuple[int, ...], name: str) -> StudyConfig:
    document = study.model_dump(mode="json")
    grid = {**document["grid"], "seed": list(seeds)}
    return validate(StudyConfig, {**document, "grid": grid, "seed_set": name})


def refuse_overlap(asked: Iterable[NamedStudy], stored: Iterable[NamedStudy]) -> None:
    """A ``ConfigError`` where seeds are asked for of which the folder holds some in another set.

    Together they would be judged after a look at some of them.
    """
    there = list(stored)
    for study in asked:
        for other in there:
            same = (study.name, study.variant, study.scale, study.part)
            if same != (other.name, other.variant, other.scale, other.part) or study.seeds == other.seeds:
                continue
            shared = sorted(set(study.seeds) & set(other.seeds))
            if shared:
                free = max(max(other.seeds) for other in there if other.name == study.name) + 1
                raise ConfigError(
                    f"seed {shared[0]} of {study.label} is in this folder already, in a set of {len(other.seeds)}: "
                    "seeds that are added after a look are judged alone, as a replication. "
                    f"Run others with `--first-seed {free}`, or all of them with `--runs` in a folder of their own."
                )
