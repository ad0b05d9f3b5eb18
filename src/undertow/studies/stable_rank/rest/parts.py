"""The mixture with the head fixed, trained until the loss is 10⁻⁵⁰, from the smallest and the largest start."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.study import Part, Scale
from undertow.studies.stable_rank.starts import (
    ACTIVATIONS,
    INIT_SCALES,
    TEN_SEEDS,
    at_rest,
    fixed_head,
    start_axis,
)

__all__ = ["PARTS"]

_SIZES = by_scale(
    d=(200, 784, 784),
    width=(16, 100, 100),
    alpha=(0.05, 0.004, 0.001),
    every=(10, 2, 1),
    data=({"seed": 0}, {}, {}),  # in seconds: the same points for all seeds, so that they train as one batch
)


def rest(scale: Scale, variant: str) -> dict[str, Any]:
    """α‖x‖² is about 3 with ten points: a step changes no margin by more than a third."""
    size = _SIZES[scale]
    return {
        "data": {"name": "kou-mixture", "n": 10, "d": size.d, "sigma_p": 0.01, "sigma_e": 1.0, **size.data},
        "model": fixed_head(size.width, variant),
        "training": at_rest(size.alpha, -50.0),
        "probe": {
            "measures": ["stable-rank", "rank-proof", "neuron-alignment"],
            "every": f"{size.every} decades",
        },
        "grid": {
            "activation": ACTIVATIONS,
            "seed": TEN_SEEDS,
            start_axis(variant): [INIT_SCALES[0], INIT_SCALES[-1]],
        },
    }


PARTS: dict[str, Part] = {"rest": rest}
