"""The mixture trained until the rank rests: with the head fixed, with it trained, and from a Glorot start."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.study import Part, Scale
from undertow.studies.stable_rank.starts import (
    ACTIVATIONS,
    INIT_SCALES,
    ONE_DRAW,
    at_rest,
    fixed_head,
    glorot_start,
    mixture,
    start_axis,
    starts,
    trained_head,
)

__all__ = ["PARTS", "decades_down"]

_DECADES = {
    "rest": {"smoke": 50, "laptop": 200, "paper": 1000},
    "rest-trained": {"smoke": 100, "laptop": 10_000, "paper": 1000},
    "rest-glorot": {"smoke": 50, "laptop": 50, "paper": 50},
}
"""Of the loss, by part and scale. What is left of the start falls as their square with one layer trained, and as their
number with two, whose margins on the other hand double every few dozen steps."""
_FROM_VARIANCES = {
    "rest": {"smoke": 50, "laptop": 1000, "paper": 1000},
    "rest-trained": {"smoke": 100, "laptop": 100_000, "paper": 100_000},
}
"""The same where the five numbers are variances: starts are 30 to 300 times larger, and outgrown later. How far was
chosen after a look: with the head fixed ranks fell still at 10⁻²⁰⁰ at laptop scale, and claims stayed open."""
_SIZES = by_scale(
    d=(200, 784, 784),
    width=(16, 100, 100),
    alpha=(0.05, 0.004, 0.004),
    trained=(0.02, 0.002, 5e-4),
    moments=("25 decades", "log", "log"),
    every=(25, 5, 5),
    seeds=(10, 10, 20),
    data=ONE_DRAW,
)


def decades_down(part: str, scale: str, variant: str) -> int:
    """How many decades the loss is to come down.

    >>> decades_down("rest", "laptop", "paper"), decades_down("rest", "laptop", "authors")
    (200, 1000)
    """
    own = _FROM_VARIANCES if variant == "authors" and part in _FROM_VARIANCES else _DECADES
    return own[part][scale]


def rest(scale: Scale, variant: str) -> dict[str, Any]:
    """α‖x‖² is about 3 with ten points: a step changes no margin by more than a third."""
    size = _SIZES[scale]
    return {
        "data": mixture(size.d, size.data),
        "model": fixed_head(size.width, variant),
        "training": at_rest(size.alpha, decades_down("rest", scale, variant)),
        "probe": {"measures": ["stable-rank", "rank-proof", "neuron-alignment"], "every": size.moments},
        "grid": {
            "activation": ACTIVATIONS,
            "seed": list(range(size.seeds)),
            start_axis(variant): [INIT_SCALES[0], INIT_SCALES[-1]],
        },
        # Where each seed has ten points of its own, one batch of all seeds takes a fifth of the time.
        "own_data": not size.data,
    }


def rest_trained(scale: Scale, variant: str) -> dict[str, Any]:
    """Both layers grow, and with them what a step changes: α is smaller."""
    size, settings = _SIZES[scale], rest(scale, variant)
    return {
        **settings,
        "model": trained_head(size.width, variant),
        "training": at_rest(size.trained, decades_down("rest-trained", scale, variant), trained=True),
        "probe": {"measures": ["stable-rank"], "every": f"{size.every} decades"},
        "grid": {**settings["grid"], start_axis(variant): starts(scale)},
    }


def rest_glorot(scale: Scale, variant: str) -> dict[str, Any]:
    """Frei et al.'s start, whose stable rank has not moved after the report's 5,000 epochs."""
    settings = rest(scale, variant)
    return {
        **settings,
        "model": glorot_start(settings["model"]),
        "training": at_rest(_SIZES[scale].alpha, decades_down("rest-glorot", scale, variant)),
        "probe": {"measures": ["stable-rank"], "every": _SIZES[scale].moments},
        "grid": {"seed": settings["grid"]["seed"]},
    }


PARTS: dict[str, Part] = {"rest": rest, "rest-trained": rest_trained, "rest-glorot": rest_glorot}
