"""Fully connected ReLU networks on clusters, trained along the flow: steps of one length, or steps η = α/𝓛."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS", "RATES"]

RATES = (1, 2, 3, 4)
_SIZES = by_scale(
    d=(10, 20, 100),
    n=(12, 20, 100),
    width=(16, 16, 64),
    epochs=(4000, 20000, 200000),
    stop=(-20.0, -100.0, -1000.0),
    every=("1 decades", "2 decades", "10 decades"),
    lengths=([0.4, 0.2, 0.1], [0.2, 0.1, 0.05, 0.02], [0.2, 0.1, 0.05, 0.02, 0.01]),
)
_PACE = {1: 0.4, 2: 0.01, 3: 0.003, 4: 0.001}
"""α of η = α/𝓛: the deeper, the faster ‖∇log 𝓛‖ grows, and steps must stay short beside the weights."""


def _data(size: Any) -> dict[str, Any]:
    return {"name": "d-binary", "n": size.n, "d": size.d, "k": 4, "sigma": 0.3}


def _training(size: Any, **more: Any) -> dict[str, Any]:
    common = {"epochs": size.epochs, "loss": "logistic", "dtype": "float64", "objective": "log-loss"}
    return {**common, "stop_below": size.stop, **more}


def monotone(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """Two layers, steps of length η along −∇log 𝓛: the flow up to its clock, for several η."""
    size = _SIZES[scale]
    measures = ["margins", "direction", {"name": "kkt", "method": "gram"}]
    return {
        "data": _data(size),
        "model": {
            "name": "mlp",
            "widths": [size.width],
            "outputs": 1,
            "init": {"name": "gaussian", "std": 0.1},
        },
        "training": _training(size, optimizer="normalised-gd", learning_rate=size.lengths[-1]),
        "probe": {"measures": measures, "every": size.every},
        "grid": {"n": [size.n], "learning_rate": list(size.lengths), "seed": list(range(10))},
    }


def lazy(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """The same networks from a start so large that features hardly move, only until the loss is 10^-2."""
    own = monotone(scale, "paper")
    own["model"] = own["model"] | {"init": {"name": "gaussian", "std": 3.0}}
    own["training"] = own["training"] | {"stop_below": -2.0}
    own["probe"] = own["probe"] | {"every": "ends"}
    return own | {"grid": {"seed": list(range(10))}}


def biased(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """Two layers with biases in both: of no order, and of order two nearly, once the weights are large."""
    size, own = _SIZES[scale], monotone(scale, "paper")
    start = {"name": "gaussian", "std": 0.1}
    own["model"] = {
        "name": "two-layer",
        "width": size.width,
        "init": start,
        "head": "gaussian",
        "bias": "both",
    }
    return own | {"grid": {"learning_rate": [size.lengths[-1]], "seed": list(range(10))}}


def _rates(order: int) -> Part:
    def rates(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
        size = _SIZES[scale]
        data = {"name": "separable", "n": size.n, "d": size.d} if order == 1 else _data(size)
        return {
            "data": data,
            "model": {"name": "mlp", "widths": [size.width] * (order - 1), "outputs": 1},
            "training": _training(size, optimizer="gd", learning_rate=_PACE[order], stop_below=3 * size.stop),
            "probe": {"measures": ["margins"], "every": size.every},
            "grid": {"widths": [[size.width] * (order - 1)], "seed": list(range(10))},
        }

    return rates


PARTS: dict[str, Part] = {
    "monotone": monotone,
    "lazy": lazy,
    "biased": biased,
    **{f"rates-{order}": _rates(order) for order in RATES},
}
