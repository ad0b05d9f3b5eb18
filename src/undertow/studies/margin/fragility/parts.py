"""Narrow two-layer networks on D_binary and on nearly orthogonal points, to losses of 10^-300, radii solved exactly."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SIZES = by_scale(
    d=(30, 60, 500),
    n=([20], [30, 60], [100, 300]),
    few=([8], [8, 20], [20, 60]),
    clusters=([2, 6], [2, 6, 12], [2, 6, 12]),
    starts=([0.01, 0.5], [0.01, 0.5], [0.001, 0.01, 0.1, 1.0]),
    epochs=(800, 10000, 100000),
    stop=(-30.0, -300.0, -1000.0),
    every=("at 0.5, 30 decades", "at 0.5, 1, 2, 4, 10, 30, 100, 300 decades", "log"),
    points=(2, 3, 20),
    length=(0.1, 0.05, 0.02),
)


def _narrow(scale: Scale, data: dict[str, Any], *, fixed: bool, grid: dict[str, Any]) -> dict[str, Any]:
    """Steps of one length along −∇log 𝓛, the head trained or as it was: of order two, or one."""
    size = _SIZES[scale]
    trained = {"parameters": ["hidden"]} if fixed else {}
    radii = {"name": "point-radii", "exact": True, "attack": False, "limit": size.points}
    return {
        "data": data,
        "model": {
            "name": "two-layer",
            "width": 8,
            "init": {"name": "gaussian", "std": size.starts[0]},
            "head": "balanced-signs",
            "bias": "hidden",
        },
        "training": {
            "optimizer": "normalised-gd",
            "learning_rate": size.length,
            "epochs": size.epochs,
            "loss": "logistic",
            "dtype": "float64",
            "objective": "log-loss",
            "stop_below": size.stop,
            "frozen": ["output.weight"] if fixed else [],
        },
        "probe": {
            "measures": [{"name": "margins", **trained}, {"name": "kkt", "method": "gram", **trained}, radii],
            "every": size.every,
        },
        "grid": {**grid, "std": size.starts, "seed": list(range(10))},
        "own_data": True,
    }


def _clusters(fixed: bool) -> Part:
    return lambda scale, variant: _on_clusters(scale, fixed=fixed)  # noqa: ARG005


def _on_clusters(scale: Scale, *, fixed: bool) -> dict[str, Any]:
    size = _SIZES[scale]
    data = {"name": "d-binary", "d": size.d, "k": 2, "n": size.n[0]}
    own = _narrow(scale, data, fixed=fixed, grid={"k": size.clusters, "n": size.n})
    own["probe"]["measures"].append({"name": "feature-coefficients", "pairs": False})
    return own


def _orthogonal(fixed: bool) -> Part:
    def orthogonal(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
        size = _SIZES[scale]
        data = {"name": "kou-mixture", "d": size.d, "n": size.few[0], "sigma_p": 0.01}
        return _narrow(scale, data, fixed=fixed, grid={"n": size.few})

    return orthogonal


def bounds(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """Networks of two clusters at the end of training: solved radii beside q/β with β proved over a ball."""
    size, own = _SIZES[scale], _on_clusters(scale, fixed=False)
    (radii,) = [each | {"ball": True} for each in own["probe"]["measures"] if each["name"] == "point-radii"]
    grid = {"k": [2], "n": size.n[:1], "std": size.starts[:1], "seed": list(range(10))}
    return own | {"probe": {"measures": [radii], "every": "end"}, "grid": grid}


def robust(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """f_robust of the same clusters, constructed from their centres and not trained."""
    size, own = _SIZES[scale], _on_clusters(scale, fixed=False)
    del own["grid"]["std"]
    training = {"optimizer": "gd", "learning_rate": 0.1, "epochs": 0, "loss": "logistic", "dtype": "float64"}
    measures = [each for each in own["probe"]["measures"] if each["name"] in ("margins", "point-radii")]
    return {
        **own,
        "model": {"name": "grouped-centres"},
        "training": training,
        "probe": {"measures": measures, "every": "end"},
        "grid": {"k": size.clusters, "n": size.n, "seed": list(range(10))},
    }


PARTS: dict[str, Part] = {
    "clusters-trained": _clusters(False),
    "clusters-fixed": _clusters(True),
    "orthogonal-trained": _orthogonal(False),
    "orthogonal-fixed": _orthogonal(True),
    "robust": robust,
    "bounds": bounds,
}
