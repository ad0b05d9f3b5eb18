"""The grid of the stable-rank study: two activations, five scales of the start."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.study import Part, Scale

__all__ = ["INIT_SCALES", "PARTS"]

INIT_SCALES = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3)
_SIZES: dict[Scale, dict[str, int]] = {
    "smoke": {"d": 60, "width": 16, "epochs": 300, "every": 20, "seeds": 10},
    "laptop": {"d": 784, "width": 100, "epochs": 5000, "every": 100, "seeds": 10},
    "paper": {"d": 784, "width": 100, "epochs": 5000, "every": 10, "seeds": 20},
}


def mixture(scale: Scale, variant: str) -> dict[str, Any]:
    """The study's configuration; the scale changes sizes alone."""
    size = _SIZES[scale]
    init, number = ("gaussian", "std") if variant == "paper" else ("gaussian-variance", "variance")
    start = {"name": init, number: INIT_SCALES[0]}
    training = {"optimizer": "gd", "learning_rate": 1e-4, "epochs": size["epochs"], "loss": "cross-entropy"}
    kinds, seeds = ["relu", "leaky-relu"], list(range(size["seeds"]))
    return {
        "data": {"name": "kou-mixture", "n": 10, "d": size["d"], "sigma_p": 0.01, "sigma_e": 1.0},
        "model": {"name": "two-layer", "width": size["width"], "init": start, "head": "mean", "bias": "both"},
        "training": training,
        "probe": {"measures": ["stable-rank", "loss"], "every": size["every"]},
        "grid": {"activation": kinds, "seed": seeds, number: list(INIT_SCALES)},
    }


PARTS: dict[str, Part] = {"main": mixture}
