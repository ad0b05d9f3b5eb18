"""Clusters with a fixed head, as in feature averaging; digits by parity, as in co-correlation."""

from __future__ import annotations

from functools import partial
from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.settings import two_layer
from undertow.studies.kit.study import Part, Scale
from undertow.studies.optimisers.rules import SEEDS, trained_by

__all__ = ["EVERY_RULE", "PARTS"]

EVERY_RULE = ("gd", "sign", "coordinate", "spectral", "adam")
CLUSTER_RATES = {"gd": 0.1, "sign": 0.003, "coordinate": 1.0, "spectral": 0.1, "adam": 0.003}
DIGIT_RATES = {"gd": 0.1, "sign": 0.01, "coordinate": 1.0, "spectral": 0.1, "adam": 0.01}
_SIZES = by_scale(
    d=(120, 500, 3072),
    n=(40, 200, 1000),
    steps=(60, 300, 1000),
    samples=(200, 600, 1400),
    width=(16, 32, 256),
)


def clusters(scale: Scale, variant: str, *, rule: str) -> dict[str, Any]:  # noqa: ARG001
    """D_binary, ten neurons with biases and a fixed head, until the loss is 0.01."""
    size, frozen = _SIZES[scale], ["output.weight"]
    rate = CLUSTER_RATES[rule]
    return {
        "data": {"name": "d-binary", "n": size.n, "d": size.d, "k": 4},
        "model": two_layer(10, 1e-5, bias_std=1e-5, bias="hidden", head="balanced-signs"),
        "training": trained_by(rule, size.steps, loss="logistic", rate=rate, frozen=frozen, stop_below=-2.0),
        "probe": {"measures": [{"name": "feature-cosines", "pairs": False}, "loss"], "every": "end"},
        "grid": {"seed": SEEDS[scale]},
    }


def digits(scale: Scale, variant: str, *, rule: str) -> dict[str, Any]:  # noqa: ARG001
    """Scikit-learn's digits, even or odd; all seeds share the points and are one batch."""
    size, frozen = _SIZES[scale], ["output.weight"]
    return {
        "data": {"name": "digits", "limit": size.samples, "normalise": "unit-norm", "task": "parity"},
        "model": {
            "name": "two-layer",
            "width": size.width,
            "init": {"name": "scaled", "q": 0.25},
            "head": "signs",
        },
        "training": trained_by(rule, size.steps, loss="bce", rate=DIGIT_RATES[rule], frozen=frozen),
        "probe": {
            "measures": [{"name": "collaboration", "seam": "activation"}, "accuracy"],
            "every": "ends",
            "limit": 64,
        },
        "grid": {"seed": SEEDS["laptop"]},
    }


PARTS: dict[str, Part] = {
    **{f"clusters-{rule}": partial(clusters, rule=rule) for rule in EVERY_RULE},
    **{f"digits-{rule}": partial(digits, rule=rule) for rule in EVERY_RULE},
}
