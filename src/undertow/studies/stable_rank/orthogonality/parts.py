"""Points of equal cosines: nine cosines, a low and a high dimension, five scales of the start; the head fixed."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.settings import gradient_descent
from undertow.studies.kit.study import Part, Scale
from undertow.studies.stable_rank.starts import IN_SPAN, TEN_SEEDS, fixed_head, start_axis, starts

__all__ = ["COSINES", "PARTS"]

COSINES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9)
_SIZES = by_scale(
    cosines=((0.0, 0.1, 0.9), COSINES, COSINES),
    width=(16, 50, 100),
    epochs=(200, 1000, 5000),
    rate=(0.02, 0.004, 8e-4),
)


def cosines(scale: Scale, variant: str) -> dict[str, Any]:
    """The points are the same for all seeds, up to a rotation that a Gaussian start does not see."""
    size = _SIZES[scale]
    return {
        "data": {"name": "equal-cosines", "n": 10, "positive": 5, "seed": 0},
        "model": fixed_head(size.width, variant),
        "training": {**gradient_descent(size.rate, size.epochs, fixed_head=True), **IN_SPAN},
        "probe": {
            "measures": ["stable-rank", {"name": "loss", "kind": "logistic"}, "neuron-alignment"],
            "every": "ends",
        },
        "grid": {
            "cosine": list(size.cosines),
            "d": [16, 200],
            "seed": TEN_SEEDS,
            start_axis(variant): starts(scale),
        },
    }


PARTS: dict[str, Part] = {"cosines": cosines}
