"""Vertices with arbitrary labels: a linear classifier and a two-layer network, trained, and the nearest neighbour."""

from __future__ import annotations

from functools import partial
from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.settings import after_training_on_test, gradient_descent
from undertow.studies.kit.study import Part, Scale

__all__ = ["MARGIN", "PARTS", "RADIUS"]

MARGIN = 0.05
RADIUS = 0.5
"""Half of what the nearest-neighbour classifier is sure to withstand, ten times the linear one's margin."""
_RADII = [0.02, 0.1, 0.2, RADIUS, 0.9]
_SIZES = by_scale(
    d=(9, 21, 51),
    corners=(60, 200, 5000),
    epochs=(400, 3000, 20000),
    points=(4, 25, 2000),
    width=(10, 50, 2000),
    radii=([RADIUS], _RADII, _RADII),
)


def vertices(scale: Scale, *, classifier: str) -> dict[str, Any]:
    """Two classifiers by gradient descent and one that is not trained.

    ``linear`` is logistic regression, ``relu`` a two-layer network, free to remember the vertices or not; ``nearest``
    is the nearest-neighbour classifier.
    """
    size = _SIZES[scale]
    linear = {"name": "mlp", "widths": [], "init": {"name": "gaussian", "std": 0.0}}
    relu = {"name": "mlp", "widths": [size.width]}
    model, training = {
        "linear": (linear, gradient_descent(4.0, size.epochs)),
        "nearest": ({"name": "nearest"}, {"optimizer": "gd", "epochs": 0, "loss": "cross-entropy"}),
        "relu": (relu, gradient_descent(0.3, size.epochs)),
    }[classifier]
    corners = {"n": 4 * size.corners, "d": size.d, "corners": size.corners, "margin": MARGIN}
    robust = {"name": "robust-accuracy", "eps": size.radii, "attack": "apgd-ce+fab-t"}
    return {
        "data": {"name": "lower-bound", **corners},
        "model": model,
        "training": training,
        "probe": after_training_on_test(["accuracy", robust], size.points),
        "grid": {"seed": list(range(10))},
    }


PARTS: dict[str, Part] = {
    f"li2022-{classifier}": only_in("paper")(partial(vertices, classifier=classifier))
    for classifier in ("linear", "nearest", "relu")
}
