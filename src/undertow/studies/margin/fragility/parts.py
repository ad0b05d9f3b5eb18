"""Narrow two-layer networks on D_binary and on nearly orthogonal points, to losses of 10^-300, radii solved exactly."""

from __future__ import annotations

from functools import partial
from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.settings import down_log_loss, gradient_descent, two_layer
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SIZES = by_scale(
    d=(30, 60, 500),
    n=([20], [30, 60], [100, 300]),
    few=([8], [8, 20], [20, 60]),
    clusters=([2, 6], [2, 6, 12], [2, 6, 12]),
    starts=([0.01, 0.5], [0.01, 0.5], [0.001, 0.01, 0.1, 1.0]),
    epochs=(800, 10000, 100000),
    stop=(-15.0, -300.0, -1000.0),
    every=("at 2, 15 decades", "at 0.5, 1, 2, 4, 10, 30, 100, 300 decades", "log"),
    points=(2, 3, 20),
    length=(0.1, 0.05, 0.02),
)


_KINKS = 1e-2
"""Within this share of a unit's largest input its slope is free: a step over ρ is 1e-2 at 10^-10, 2e-3 at 10^-300.

Units that the flow holds at their kink lie a step beside it; freed within less, they would keep a one-sided slope and
the residual with it.
"""


def _narrow(scale: Scale, data: dict[str, Any], *, fixed: bool, grid: dict[str, Any]) -> dict[str, Any]:
    """Steps of one length along −∇log 𝓛, the head trained or as it was: of order two, or one."""
    size = _SIZES[scale]
    trained = {"parameters": ["hidden"]} if fixed else {}
    radii = {"name": "point-radii", "exact": True, "attack": False, "limit": size.points}
    kkt = {"name": "kkt", "method": "gram", "kinks": _KINKS, **trained}
    steps = {"optimizer": "normalised-gd", "learning_rate": size.length}
    return {
        "data": data,
        "model": two_layer(8, size.starts[0], head="balanced-signs", bias="hidden"),
        "training": down_log_loss(size.epochs, size.stop, **steps, frozen=["output.weight"] * fixed),
        "probe": {
            "measures": [{"name": "margins", **trained}, kkt, radii],
            "every": size.every,
        },
        "grid": {**grid, "std": size.starts, "seed": list(range(10))},
        "own_data": True,
    }


def clusters(scale: Scale, variant: str, *, fixed: bool = False) -> dict[str, Any]:  # noqa: ARG001
    """D_binary, with the coefficients of its clusters in every neuron beside the radii."""
    size = _SIZES[scale]
    data = {"name": "d-binary", "d": size.d, "k": 2, "n": size.n[0]}
    own = _narrow(scale, data, fixed=fixed, grid={"k": size.clusters, "n": size.n})
    own["probe"]["measures"].append({"name": "feature-coefficients", "pairs": False})
    return own


def orthogonal(scale: Scale, variant: str, *, fixed: bool = False) -> dict[str, Any]:  # noqa: ARG001
    """Few enough points that they are nearly orthogonal."""
    size = _SIZES[scale]
    data = {"name": "kou-mixture", "d": size.d, "n": size.few[0], "sigma_p": 0.01}
    return _narrow(scale, data, fixed=fixed, grid={"n": size.few})


def bounds(scale: Scale, variant: str) -> dict[str, Any]:
    """Networks of two clusters at the end of training: solved radii beside q/β with β proved over a ball."""
    size, own = _SIZES[scale], clusters(scale, variant)
    (radii,) = [each | {"ball": True} for each in own["probe"]["measures"] if each["name"] == "point-radii"]
    grid = {"k": [2], "n": size.n[:1], "std": size.starts[:1], "seed": list(range(10))}
    return own | {"probe": {"measures": [radii], "every": "end"}, "grid": grid}


def robust(scale: Scale, variant: str) -> dict[str, Any]:
    """f_robust of the same clusters, constructed from their centres and not trained."""
    own = clusters(scale, variant)
    measures = [each for each in own["probe"]["measures"] if each["name"] in ("margins", "point-radii")]
    return own | {
        "model": {"name": "grouped-centres"},
        "training": {**gradient_descent(0.1, 0), "dtype": "float64"},
        "probe": {"measures": measures, "every": "end"},
        "grid": {axis: values for axis, values in own["grid"].items() if axis != "std"},
    }


PARTS: dict[str, Part] = {
    "clusters-trained": clusters,
    "clusters-fixed": partial(clusters, fixed=True),
    "orthogonal-trained": orthogonal,
    "orthogonal-fixed": partial(orthogonal, fixed=True),
    "robust": robust,
    "bounds": bounds,
}
