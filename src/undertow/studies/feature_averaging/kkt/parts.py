"""Two-layer ReLU networks with biases and a fixed head, by full-batch gradient descent on D_binary."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.settings import gradient_descent, two_layer
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SIZES = by_scale(
    d=(120, 500, 3072),
    n=(40, 100, 1000),
    k=(4, 10, 10),
    rate=(0.05, 0.02, 0.001),
    steps=(200, 4000, 100000),
)


@only_in("paper")
def kkt(scale: Scale) -> dict[str, Any]:
    """Measured on the points trained on, where the KKT conditions live."""
    size = _SIZES[scale]
    return {
        "data": {"name": "d-binary", "n": size.n, "d": size.d, "k": size.k},
        "model": two_layer(10, 1e-5, bias_std=1e-5, bias="hidden", head="balanced-signs"),
        "training": gradient_descent(size.rate, size.steps, fixed_head=True),
        "probe": {
            "measures": [
                {"name": "kkt", "parameters": ["hidden"]},
                {"name": "kkt-network", "moves": [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0]},
                {"name": "loss", "kind": "logistic"},
            ],
            "every": "log",
        },
        "grid": {"seed": list(range(10))},
    }


PARTS: dict[str, Part] = {"kkt": kkt}
