"""Fully connected networks on clusters, trained along the flow: steps of one length, or of equal falls of log 𝓛."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.settings import down_log_loss, fully_connected, two_layer
from undertow.studies.kit.study import Part, Scale

__all__ = ["DEEP_LINEAR", "PARTS", "RATES"]

RATES = (1, 2, 3, 4)
DEEP_LINEAR = "deep-linear"
_SIZES = by_scale(
    d=(10, 20, 100),
    n=(12, 20, 100),
    width=(16, 16, 64),
    epochs=(4000, 40000, 400000),
    stop=(-20.0, -100.0, -1000.0),
    every=("3 decades", "5 decades", "10 decades"),
    far=(-100.0, -1000.0, -10000.0),
    seldom=("25 decades", "100 decades", "200 decades"),
    often=("6 decades", "10 decades", "10 decades"),
    fall=(1.0, 0.2, 0.1),
    longest=(0.02, 0.002, 0.002),
    seeds=(10, 40, 10),
    lengths=([0.4, 0.2, 0.1], [0.2, 0.1, 0.05, 0.02, 0.01, 0.005], [0.2, 0.1, 0.05, 0.02, 0.01, 0.005]),
)
_FALLS = {"name": "margin-falls", "every": "end"}
"""γ̃ after every step: between readings that are decades apart it may fall and come back."""
_STARTS = {1: 0.1, 2: 0.01, 3: 0.05, 4: 0.05}
"""σ by depth: small, because the theorem's rates are those of a direction that has forgotten its start."""


def _data(size: Any) -> dict[str, Any]:
    return {"name": "d-binary", "n": size.n, "d": size.d, "k": 4, "sigma": 0.3}


def _points(size: Any) -> dict[str, Any]:
    return {"name": "separable", "n": size.n, "d": size.d}


def monotone(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """Two layers, steps of length η along −∇log 𝓛: the flow up to its clock, for several η."""
    size = _SIZES[scale]
    return {
        "data": _data(size),
        "model": fully_connected([size.width], 0.1),
        "training": down_log_loss(
            size.epochs, size.stop, optimizer="normalised-gd", learning_rate=size.lengths[-1]
        ),
        "probe": {"measures": ["margins", "direction", _FALLS], "every": size.every},
        "grid": {"n": [size.n], "learning_rate": list(size.lengths), "seed": list(range(10))},
        "own_data": True,
    }


def _steady(size: Any, longest: float, stop: float) -> dict[str, Any]:
    """Equal falls of log 𝓛: with α/𝓛 and any α, a step at 10^-300 would lower the loss by many decades at once."""
    optimizer = {"name": "steady-gd", "longest": longest}
    return down_log_loss(size.epochs, stop, optimizer=optimizer, learning_rate=size.fall)


def stationary(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """Two layers from a start of almost nothing, far beyond what a float holds.

    What is left of the start is ‖θ_0‖/ρ of the residual. Units that the flow holds at their kink lie a step beside it
    here: slopes are free within 1e-3, which is more than a step is of the weights and less than other inputs are.
    """
    size, own = _SIZES[scale], monotone(scale, "paper")
    kkt = {"name": "kkt", "method": "gram", "kinks": 1e-3}
    return own | {
        "model": fully_connected([size.width], 0.001),
        "training": _steady(size, size.longest, size.far),
        "probe": {"measures": ["margins", "direction", kkt], "every": size.seldom},
        "grid": {"learning_rate": [size.fall], "seed": list(range(size.seeds))},
    }


def lazy(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """The same networks from a start so large that features hardly move, only until the loss is 10^-2."""
    size, own = _SIZES[scale], stationary(scale, "paper")
    return own | {
        "model": fully_connected([size.width], 3.0),
        "training": own["training"] | {"stop_below": -2.0},
        "probe": own["probe"] | {"every": "ends"},
        "grid": {"seed": list(range(size.seeds))},
    }


def biased(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """Two layers with biases in both: of no order, and of order two nearly, once the weights are large."""
    size, own = _SIZES[scale], stationary(scale, "paper")
    probe = own["probe"] | {"measures": [*own["probe"]["measures"], _FALLS]}
    return own | {"model": two_layer(size.width, 0.001, head="gaussian", bias="both"), "probe": probe}


def _rates(order: int) -> Callable[[Scale, str], dict[str, Any]]:
    def rates(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
        size = _SIZES[scale]
        data, widths = _points(size) if order == 1 else _data(size), [size.width] * (order - 1)
        return {
            "data": data,
            "model": fully_connected(widths, _STARTS[order]),
            "training": _steady(size, 0.01, 3 * size.stop),
            "probe": {"measures": ["margins", _FALLS], "every": size.often},
            "grid": {"widths": [widths], "seed": list(range(10))},
            "own_data": True,
        }

    return rates


def deep_linear(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """Three linear layers on the separable points of a linear classifier: of order three, and linear in x."""
    size, own = _SIZES[scale], _rates(3)(scale, "paper")
    return own | {
        "data": _points(size),
        "model": own["model"] | {"activation": "linear"},
    }


PARTS: dict[str, Part] = {
    "monotone": monotone,
    "stationary": stationary,
    "lazy": lazy,
    "biased": biased,
    **{f"rates-{order}": _rates(order) for order in RATES},
    DEEP_LINEAR: deep_linear,
}
