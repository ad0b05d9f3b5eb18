"""Separable data in the plane and in many dimensions: gradient descent, and the L2 path of the same points."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.settings import down_log_loss, fully_connected
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SIZES = by_scale(
    dimensions=([2, 10], [2, 50], [2, 50, 500]),
    n=(20, 40, 100),
    stop=(-30.0, -100.0, -1000.0),
    every=("6 decades", "4 decades", "10 decades"),
    path=(-30.0, -100.0, -100.0),
    far=(-150.0, -1000.0, -10000.0),
    seeds=(10, 40, 10),
)


def svm(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """A linear classifier without intercept by η = α/𝓛; each seed has points of its own."""
    size = _SIZES[scale]
    penalties = [power for power in (-1.0, -3.0, -10.0, -30.0, -100.0) if power >= size.path]
    path = {"name": "l2-path", "log10_penalties": penalties, "every": "end"}
    points = {"name": "plane-points", "every": "end", "only": {"d": 2}}
    return {
        "data": {"name": "separable", "n": size.n, "d": 2},
        "model": fully_connected([], 0.5),
        "training": down_log_loss(100000, size.stop, optimizer="gd", learning_rate=0.4),
        "probe": {"measures": ["hard-margin", "margins", path, points], "every": size.every},
        "grid": {"d": size.dimensions, "seed": list(range(size.seeds))},
        "own_data": True,
    }


def far(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """The same far beyond what a float holds, in steps as long as the support vectors bear."""
    size, near = _SIZES[scale], svm(scale, "paper")
    return {
        **near,
        "training": near["training"] | {"learning_rate": 1.0, "stop_below": size.far},
        "probe": {"measures": [{"name": "hard-margin", "duals": True}, "margins"], "every": "end"},
        "grid": {"d": [size.dimensions[-1]], "seed": list(range(10))},
    }


PARTS: dict[str, Part] = {"svm": svm, "svm-far": far}
