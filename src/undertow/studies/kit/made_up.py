"""Made-up records of a study: can every claim be judged, and come out either way?

A claim that no records can contradict, or that stumbles over what the study's own grids record, is found before
anything is trained: its test is asked about records in which every number goes up or down with time and with every
axis by chance.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import polars

from undertow.config.grid import StudyConfig
from undertow.core.errors import InputError
from undertow.studies.kit.claim import FEWEST_SEEDS, Verdict
from undertow.studies.kit.study import Study

__all__ = ["Keys", "faults", "made_up_records", "verdicts_met"]

Keys = Callable[[StudyConfig], Mapping[str, Mapping[str, str]]]
"""Of a grid: measure → key → kind of number ("share", "positive", "any", or "time", which is what it says)."""
_LINKS: dict[str, Callable[[float], float]] = {
    "share": lambda z: 1 / (1 + math.exp(-z)),
    "positive": math.exp,
    "any": lambda z: z,
}


def faults(study: Study) -> list[str]:
    """What a study says of itself that is not so: figures that claims name, parts that nobody reads."""
    names, found = {figure.name for figure in study.figures}, []
    found += [
        f"{claim.id} names a figure {claim.figure!r} that is not there"
        for claim in study.claims
        if claim.figure is not None and claim.figure not in names
    ]
    read = {part for claim in study.claims for part in claim.parts}
    read |= {part for figure in study.figures for part in figure.parts}
    return found + [
        f"the part {part!r} is neither judged nor drawn" for part in study.parts if part not in read
    ]


def made_up_records(
    grids: Iterable[StudyConfig], keys: Keys, *, moments: int = 6, chance: random.Random
) -> polars.DataFrame:
    """Records of the grids' networks, of the fewest seeds that decide, at a few moments of training.

    A number is a + b·time^p + Σ c·axis, squeezed into its kind, with chance signs and sizes for each key, or one for
    all keys of a measure; seeds differ by a little.
    """
    rows: list[dict[str, Any]] = []
    for grid in grids:
        points = [point for point in grid.points if point.columns["seed"] < FEWEST_SEEDS]
        axes = {name: _ranks(point.columns[name] for point in points) for name in points[0].columns}
        epochs = grid.training.epochs
        for measure, of in keys(grid).items():
            together, times = chance.random() < 0.5, _times(grid, measure, moments)
            first = _coefficients(axes, chance)
            for key, kind in of.items():
                own = first if together else _coefficients(axes, chance)
                for point in points:
                    around = sum(
                        own[f"axis {name}"] * axes[name][str(value)] for name, value in point.columns.items()
                    )
                    about = {
                        "trial": point.trial.id,
                        "part": grid.part,
                        "variant": grid.variant,
                        **point.columns,
                    }
                    wobble = own["wobble"] * chance.gauss(0.0, 1.0)
                    for time in times:
                        z = own["level"] + own["slope"] * time ** own["power"] + around + wobble
                        value = 18.0 * time if kind == "time" else _LINKS[kind](max(min(z, 30.0), -30.0))
                        epoch = round(time * epochs)
                        reading = {
                            "measure": measure,
                            "key": key,
                            "step": epoch,
                            "epoch": epoch,
                            "value": value,
                        }
                        rows.append({**about, **reading})
    return polars.DataFrame(rows, infer_schema_length=None)


def verdicts_met(
    study: Study, keys: Keys, *, scale: str = "smoke", variant: str = "paper", tries: int = 200, seed: int = 0
) -> dict[str, set[Verdict]]:
    """Claim → the verdicts on many made-up records, until it held and failed (a check: until it did either)."""
    chance, both = random.Random(seed), {Verdict.HOLDS, Verdict.FAILS}
    grids = {grid.part: grid for grid in study.grids(scale, variant)}
    met: dict[str, set[Verdict]] = {
        claim.id: set() for claim in study.claims if grids.keys() >= set(claim.parts)
    }
    done = {claim.id: 1 if claim.check else 2 for claim in study.claims}
    for _ in range(tries):
        left = [
            claim for claim in study.claims if claim.id in met and len(met[claim.id] & both) < done[claim.id]
        ]
        needed = {part for claim in left for part in claim.parts}
        frames = {
            part: made_up_records([grids[part]], keys, chance=chance) for part in grids if part in needed
        }
        for claim in left:
            frame = polars.concat([frames[part] for part in claim.parts], how="diagonal_relaxed")
            try:
                met[claim.id].add(claim.test(frame).verdict)
            except InputError:  # such records cannot be judged, and it says why
                continue
    return met


def _coefficients(axes: Iterable[str], chance: random.Random) -> dict[str, float]:
    sizes = (-3.0, -1.0, -0.2, 0.0, 0.2, 1.0, 3.0)
    # An axis may be called power, as that of the course is.
    found = {f"axis {name}": 0.0 if name == "seed" else chance.choice(sizes) for name in axes}
    level = chance.choice((-8.0, -4.0, -1.0, 0.0, 1.0, 4.0, 8.0))
    course = {
        "slope": chance.choice(sizes),
        "power": chance.choice((0.1, 1.0)),
    }  # at once and then still, or evenly
    return {**found, **course, "level": level, "wobble": chance.choice((0.001, 0.05))}


def _times(grid: StudyConfig, measure: str, moments: int) -> list[float]:
    """When a measure is read, as shares of the training: at a few moments, at its ends, or at its end."""
    schedule = grid.probe.every
    for options in grid.probe.measures:
        if options["name"] == measure:
            schedule = options.get("every", schedule)
    alone = {"end": [1.0], "ends": [0.0, 1.0]}
    return alone.get(str(schedule), [moment / (moments - 1) for moment in range(moments)])


def _ranks(values: Iterable[Any]) -> dict[str, float]:
    """The place of each value among those of its axis, from 0 to 1, in the order in which they come."""
    order = list(dict.fromkeys(map(str, values)))
    return {value: place / max(len(order) - 1, 1) for place, value in enumerate(order)}
