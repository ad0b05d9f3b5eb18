"""Diagonal networks on points whose label a few coordinates decide."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SIZES = by_scale(
    n=(15, 30, 100),
    d=(30, 60, 1000),
    k=([3], [1, 3], [1, 3, 9]),
    starts=([3.0], [4.0], [4.0, 16.0, 64.0]),
    decays=([0.05], [0.03], [0.03, 0.01]),
    rate=(0.05, 0.05, 0.05),
    epochs=(800, 3000, 20000),
    every=(40, 50, 100),
)


@only_in("paper")
def swap(scale: Scale) -> dict[str, Any]:
    """Gradient descent on the logistic loss with weight decay, by sparsity, start and decay."""
    size = _SIZES[scale]
    optimizer = {"name": "heavy-ball", "momentum": 0.0, "weight_decay": size.decays[0]}
    return {
        "data": {"name": "sparse-signs", "n": size.n, "d": size.d, "k": size.k[0]},
        "model": {"name": "diagonal", "start": size.starts[0]},
        "training": {
            "optimizer": optimizer,
            "learning_rate": size.rate,
            "epochs": size.epochs,
            "loss": "logistic",
        },
        "probe": {"measures": ["margin-ends"], "every": size.every},
        "own_data": True,
        "grid": {
            "k": size.k,
            "start": size.starts,
            "weight_decay": size.decays,
            "learning_rate": [size.rate],
            "seed": list(range(10)),
        },
    }


PARTS: dict[str, Part] = {"diagonal": swap}
