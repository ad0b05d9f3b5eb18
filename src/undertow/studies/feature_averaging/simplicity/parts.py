"""Slab data of Shah et al. (2020), and the parity of digits, which a linear model solves in part."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.settings import gradient_descent, two_layer
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SLABS = by_scale(
    d=(10, 20, 50),
    n=(200, 1000, 50000),
    width=(20, 50, 300),
    epochs=(300, 1000, 2000),
    points=(200, 1000, 10000),
)
_EARLY = by_scale(
    data=("digits", "digits", "mnist"),
    n=(200, 600, 10000),
    width=(20, 50, 500),
    epochs=(300, 2000, 20000),
)


@only_in("paper")
def slabs(scale: Scale) -> dict[str, Any]:
    """Full-batch gradient descent on slab data, from a small start (σ = 0.01) and from a usual one (σ = 1/√d)."""
    size = _SLABS[scale]
    measures = ["randomised-features", {"name": "loss", "kind": "logistic"}]
    return {
        "data": {"name": "slabs", "n": size.n, "d": size.d, "pieces": 5, "margin": 0.1},
        "model": two_layer(size.width, 0.01, bias="hidden"),
        "training": gradient_descent(0.3, size.epochs),
        "probe": {"measures": measures, "every": "log", "split": "test", "limit": size.points},
        "grid": {"std": [0.01, 1.0 / size.d**0.5], "seed": list(range(10))},
    }


@only_in("paper")
def early_linear(scale: Scale) -> dict[str, Any]:
    """Parity of scikit-learn's digits (MNIST at paper scale), full-batch gradient descent from a small start."""
    size = _EARLY[scale]
    return {
        "data": {"name": size.data, "limit": size.n, "normalise": "standardised", "task": "parity"},
        "model": two_layer(size.width, 0.001, bias="hidden"),
        "training": gradient_descent(0.5, size.epochs, fixed_head=True),
        "probe": {"measures": ["linear-likeness"], "every": "log", "split": "test"},
        "grid": {"data.name": [size.data], "seed": list(range(10))},
    }


PARTS: dict[str, Part] = {"slabs": slabs, "early-linear": early_linear}
