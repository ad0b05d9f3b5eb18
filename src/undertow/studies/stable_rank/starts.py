"""What the grids of the stable-rank study have in common: five scales of the start, and the two heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from undertow.studies.kit.settings import two_layer
from undertow.studies.kit.study import Scale

__all__ = [
    "ACTIVATIONS",
    "INIT_SCALES",
    "IN_SPAN",
    "ONE_DRAW",
    "TEN_SEEDS",
    "at_rest",
    "fixed_head",
    "glorot_start",
    "mixture",
    "start_axis",
    "starts",
    "trained_head",
]

INIT_SCALES = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3)
ACTIVATIONS = ["relu", "leaky-relu"]
TEN_SEEDS = list(range(10))
ONE_DRAW: tuple[dict[str, int], dict[str, int], dict[str, int]] = ({"seed": 0}, {}, {})
"""By scale: in seconds all seeds have the same points, and train as one batch; elsewhere each has its own."""


IN_SPAN = {"coordinates": "span"}
"""Training where there are fewer samples than inputs: in their span, equal up to rounding and many times faster."""


def mixture(d: int, own: Mapping[str, int]) -> dict[str, Any]:
    """Ten points x = yμ + z of the report, in d dimensions."""
    return {"name": "kou-mixture", "n": 10, "d": d, "sigma_p": 0.01, "sigma_e": 1.0, **own}


def starts(scale: Scale) -> list[float]:
    """The five scales of the start; in seconds the smallest, the middle and the largest."""
    return list(INIT_SCALES[::2] if scale == "smoke" else INIT_SCALES)


def start_axis(variant: str) -> str:
    """What the five numbers are: standard deviations on the slides, variances in the authors' code."""
    return "std" if variant == "paper" else "variance"


def trained_head(width: int, variant: str) -> dict[str, Any]:
    """Output weights 1/m, biases 0 at the start, everything trained: the report's code for real data."""
    return {**fixed_head(width, variant), "head": "mean", "bias": "both"}


def fixed_head(width: int, variant: str) -> dict[str, Any]:
    """Half of the output weights 1/√m, half −1/√m, no biases (Frei et al. 2023; Kou et al. 2023)."""
    axis = start_axis(variant)
    name = "gaussian" if axis == "std" else "gaussian-variance"
    return {**two_layer(width, 0.0, head="halves"), "init": {"name": name, axis: INIT_SCALES[0]}}


def glorot_start(model: Mapping[str, Any]) -> dict[str, Any]:
    """The same network with the start of Frei et al. (2023): Glorot-uniform, leaky ReLU."""
    return {**model, "init": {"name": "glorot-uniform"}, "activation": "leaky-relu"}


def at_rest(alpha: float, decades: int, *, trained: bool = False, epochs: int = 50_000) -> dict[str, Any]:
    """Gradient descent on log L so many decades down: steps α/L as the loss-based rule has them.

    α does not grow here: with growth the rule takes strides in which margins never become equal. The first
    frame is above the loss of any start: from log 2 the rule would take back every epoch of a start that is worse. With
    the head ``trained`` there are two outputs.
    """
    head = {"loss": "cross-entropy"} if trained else {"loss": "logistic", "frozen": ["output.weight"]}
    return {
        "optimizer": "gd",
        "learning_rate": alpha,
        "epochs": epochs,
        **head,
        "dtype": "float64",
        **IN_SPAN,
        "rate": {"name": "loss-based", "growth": 1.0, "frame_at_start": 30.0},
        "stop_below": -float(decades),
    }
