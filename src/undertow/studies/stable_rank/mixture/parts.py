"""Figure 1's grids: two readings of the head, two activations, five scales of the start; and a Glorot start."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.settings import gradient_descent
from undertow.studies.kit.study import Part, Scale
from undertow.studies.stable_rank.starts import (
    ACTIVATIONS,
    IN_SPAN,
    ONE_DRAW,
    fixed_head,
    glorot_start,
    mixture,
    start_axis,
    starts,
    trained_head,
)

__all__ = ["PARTS"]

# At smoke scale steps are longer, so that rate · ‖x‖² · steps is what it is in the report.
_SIZES = by_scale(
    d=(60, 784, 784),
    width=(16, 100, 100),
    epochs=(300, 5000, 5000),
    every=(20, 100, 25),
    rate=(0.02, 1e-4, 1e-4),
    seeds=(10, 10, 20),
    data=ONE_DRAW,
)
_FIXED = by_scale(
    d=(200, 784, 784),
    width=(16, 100, 100),
    epochs=(200, 5000, 5000),
    every=(10, 100, 25),
    alignment=(50, 500, 100),
    rate=(1e-2, 1e-4, 1e-4),
    data=ONE_DRAW,
)


def trained(scale: Scale, variant: str) -> dict[str, Any]:
    """Output weights 1/m, trained, cross-entropy over two outputs, as the report's code has it for real data."""
    size, axis = _SIZES[scale], start_axis(variant)
    return {
        "data": mixture(size.d, size.data),
        "model": trained_head(size.width, variant),
        "training": {**gradient_descent(size.rate, size.epochs, loss="cross-entropy"), **IN_SPAN},
        "probe": {"measures": ["stable-rank", "loss"], "every": size.every},
        "grid": {"activation": ACTIVATIONS, "seed": list(range(size.seeds)), axis: starts(scale)},
    }


def fixed(scale: Scale, variant: str) -> dict[str, Any]:
    """Output weights ±1/√m, fixed, one logit, no biases."""
    size, axis = _FIXED[scale], start_axis(variant)
    return {
        "data": mixture(size.d, size.data),
        "model": fixed_head(size.width, variant),
        "training": {**gradient_descent(size.rate, size.epochs, fixed_head=True), **IN_SPAN},
        "probe": {
            "measures": [
                "stable-rank",
                {"name": "loss", "kind": "logistic"},
                {"name": "neuron-alignment", "every": size.alignment},
            ],
            "every": size.every,
        },
        "grid": {"activation": ACTIVATIONS, "seed": list(range(10)), axis: starts(scale)},
    }


def glorot(scale: Scale, variant: str) -> dict[str, Any]:
    """The same with the start of Frei et al.: Glorot-uniform, leaky ReLU."""
    settings = fixed(scale, variant)
    return {**settings, "model": glorot_start(settings["model"]), "grid": {"seed": settings["grid"]["seed"]}}


PARTS: dict[str, Part] = {"main": trained, "fixed-head": fixed, "glorot": glorot}
