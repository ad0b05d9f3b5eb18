"""The mixture trained until the loss is 10⁻⁵⁰: with the head fixed, with it trained, and from a Glorot start."""

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
    trained_head,
)

__all__ = ["PARTS"]

_SIZES = by_scale(
    d=(200, 784, 784),
    width=(16, 100, 100),
    alpha=(0.05, 0.004, 0.001),
    trained=(0.02, 0.002, 5e-4),
    every=(10, 2, 1),
    seeds=(10, 10, 20),
    starts=([INIT_SCALES[0], INIT_SCALES[2], INIT_SCALES[-1]], list(INIT_SCALES), list(INIT_SCALES)),
    data=ONE_DRAW,
)


def rest(scale: Scale, variant: str) -> dict[str, Any]:
    """α‖x‖² is about 3 with ten points: a step changes no margin by more than a third."""
    size = _SIZES[scale]
    return {
        "data": mixture(size.d, size.data),
        "model": fixed_head(size.width, variant),
        "training": at_rest(size.alpha, -50.0),
        "probe": {
            "measures": ["stable-rank", "rank-proof", "neuron-alignment"],
            "every": f"{size.every} decades",
        },
        "grid": {
            "activation": ACTIVATIONS,
            "seed": list(range(size.seeds)),
            start_axis(variant): [INIT_SCALES[0], INIT_SCALES[-1]],
        },
    }


def rest_trained(scale: Scale, variant: str) -> dict[str, Any]:
    """Both layers grow, and with them what a step changes: α is smaller."""
    size, settings = _SIZES[scale], rest(scale, variant)
    return {
        **settings,
        "model": trained_head(size.width, variant),
        "training": at_rest(size.trained, -50.0, trained=True),
        "probe": {"measures": ["stable-rank"], "every": f"{size.every} decades"},
        "grid": {**settings["grid"], start_axis(variant): size.starts},
    }


def rest_glorot(scale: Scale, variant: str) -> dict[str, Any]:
    """Frei et al.'s start, whose stable rank has not moved after the report's 5,000 epochs."""
    settings = rest(scale, variant)
    return {
        **settings,
        "model": glorot_start(settings["model"]),
        "probe": {"measures": ["stable-rank"], "every": settings["probe"]["every"]},
        "grid": {"seed": settings["grid"]["seed"]},
    }


PARTS: dict[str, Part] = {"rest": rest, "rest-trained": rest_trained, "rest-glorot": rest_glorot}
