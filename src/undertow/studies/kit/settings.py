"""Settings that grids have in common, as the dictionaries that configurations are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "HALF_DECADES",
    "after_training_on_test",
    "down_log_loss",
    "fully_connected",
    "gradient_descent",
    "robustness_beside",
    "smoothness_beside",
    "two_layer",
]

HALF_DECADES = "0.5 decades"
"""When networks are read that are compared at equal loss."""


def two_layer(width: int, std: float, *, bias_std: float | None = None, **more: Any) -> dict[str, Any]:
    """A two-layer network with a Gaussian start of its weights, and of its biases; ``more`` are its head and so on.

    >>> two_layer(10, 0.01, bias="hidden")
    {'name': 'two-layer', 'width': 10, 'init': {'name': 'gaussian', 'std': 0.01}, 'bias': 'hidden'}
    """
    start = {"name": "gaussian", "std": std, **({} if bias_std is None else {"bias": bias_std})}
    return {"name": "two-layer", "width": width, "init": start, **more}


def fully_connected(widths: Sequence[int], std: float, **more: Any) -> dict[str, Any]:
    """Hidden layers of these widths, one logit, and a Gaussian start.

    >>> fully_connected([16], 0.1)
    {'name': 'mlp', 'widths': [16], 'outputs': 1, 'init': {'name': 'gaussian', 'std': 0.1}}
    """
    return {
        "name": "mlp",
        "widths": list(widths),
        "outputs": 1,
        "init": {"name": "gaussian", "std": std},
        **more,
    }


def down_log_loss(epochs: int, stop: float, **more: Any) -> dict[str, Any]:
    """Steps along −∇log 𝓛 of the logistic loss in float64, until it is below 10^stop; ``more`` says which steps.

    >>> down_log_loss(100, -30.0)["stop_below"]
    -30.0
    """
    common = {"epochs": epochs, "loss": "logistic", "dtype": "float64", "objective": "log-loss"}
    return {**common, "stop_below": stop, **more}


def gradient_descent(
    rate: float, steps: int, *, loss: str = "logistic", fixed_head: bool = False, **more: Any
) -> dict[str, Any]:
    """Full-batch gradient descent; with ``fixed_head`` a two-layer network's second layer stays as it is.

    >>> gradient_descent(0.1, 100)
    {'optimizer': 'gd', 'learning_rate': 0.1, 'epochs': 100, 'loss': 'logistic'}
    """
    frozen = {"frozen": ["output.weight"]} if fixed_head else {}
    return {"optimizer": "gd", "learning_rate": rate, "epochs": steps, "loss": loss, **frozen, **more}


def after_training_on_test(measures: list[Any], limit: int | None = None) -> dict[str, Any]:
    """Measures at the end, on test points: the first ``limit`` of them, or all.

    >>> after_training_on_test(["accuracy"], 10)
    {'measures': ['accuracy'], 'every': 'end', 'split': 'test', 'limit': 10}
    """
    few = {} if limit is None else {"limit": limit}
    return {"measures": measures, "every": "end", "split": "test", **few}


def robustness_beside(seam: str, *, count: int, every: int | str, **more: Any) -> list[dict[str, Any]]:
    """What is read beside a bias: stable ranks, and margin, energy, ϱ and radii of the first ``count`` points.

    >>> [measure["name"] for measure in robustness_beside("activation1", count=4, every=100)]
    ['stable-rank', 'robustness-profile']
    >>> robustness_beside("activation1", count=0, every=100)
    [{'name': 'stable-rank', 'every': 100}]
    """
    ranks = {"name": "stable-rank", "every": every}
    profile = {"name": "robustness-profile", "seam": seam, "count": count, "every": every, **more}
    return [ranks, profile] if count else [ranks]


def smoothness_beside(seam: str, *, every: int | str) -> list[dict[str, Any]]:
    """The same of a regression, which has no radius: stable ranks, and energy and ϱ over all of its points.

    >>> [measure["name"] for measure in smoothness_beside("activation1", every=100)]
    ['stable-rank', 'collaboration']
    """
    return [
        {"name": "stable-rank", "every": every},
        {"name": "collaboration", "seam": seam, "every": every},
    ]
