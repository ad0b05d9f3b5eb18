"""Settings that grids have in common, as the dictionaries that configurations are made of."""

from __future__ import annotations

from typing import Any

__all__ = ["after_training_on_test", "gradient_descent", "two_layer"]


def two_layer(width: int, std: float, *, bias_std: float | None = None, **more: Any) -> dict[str, Any]:
    """A two-layer network with a Gaussian start of its weights, and of its biases; ``more`` are its head and so on.

    >>> two_layer(10, 0.01, bias="hidden")
    {'name': 'two-layer', 'width': 10, 'init': {'name': 'gaussian', 'std': 0.01}, 'bias': 'hidden'}
    """
    start = {"name": "gaussian", "std": std, **({} if bias_std is None else {"bias": bias_std})}
    return {"name": "two-layer", "width": width, "init": start, **more}


def gradient_descent(
    rate: float, steps: int, *, loss: str = "logistic", fixed_head: bool = False
) -> dict[str, Any]:
    """Full-batch gradient descent; with ``fixed_head`` a two-layer network's second layer stays as it is.

    >>> gradient_descent(0.1, 100)
    {'optimizer': 'gd', 'learning_rate': 0.1, 'epochs': 100, 'loss': 'logistic'}
    """
    frozen = {"frozen": ["output.weight"]} if fixed_head else {}
    return {"optimizer": "gd", "learning_rate": rate, "epochs": steps, "loss": loss, **frozen}


def after_training_on_test(measures: list[Any], limit: int | None = None) -> dict[str, Any]:
    """Measures at the end, on test points: the first ``limit`` of them, or all.

    >>> after_training_on_test(["accuracy"], 10)
    {'measures': ['accuracy'], 'every': 'end', 'split': 'test', 'limit': 10}
    """
    few = {} if limit is None else {"limit": limit}
    return {"measures": measures, "every": "end", "split": "test", **few}
