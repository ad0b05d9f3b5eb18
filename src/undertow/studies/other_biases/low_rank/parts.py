"""Matrix completion by products of two to four matrices."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SIZES = by_scale(
    size=(12, 30, 100),
    rank=(2, 3, 5),
    n=(90, 342, 2000),
    depths=((2, 3), (2, 3, 4), (2, 3, 4)),
    starts=([1e-3], [1e-3], [1e-3, 1e-5]),
    rate=(1.0, 0.3, 1.5),
    epochs=(250, 3000, 20000),
    every=(25, 30, 100),
)


@only_in("paper")
def completion(scale: Scale) -> dict[str, Any]:
    """Gradient descent on the square loss of the entries seen, by depth and scale of the start."""
    size = _SIZES[scale]
    return {
        "data": {"name": "matrix-entries", "n": size.n, "size": size.size, "rank": size.rank},
        "model": {"name": "matrix-product", "depth": size.depths[0], "start": size.starts[0]},
        "training": {"learning_rate": size.rate, "epochs": size.epochs, "loss": "square"},
        "probe": {
            "measures": [
                {"name": "completion", "count": size.rank + 2, "every": size.every},
                {"name": "loss", "kind": "square", "every": "end"},
                {"name": "nuclear", "every": "end"},
            ],
            "every": "end",
        },
        "grid": {"depth": list(size.depths), "start": size.starts, "seed": list(range(10))},
    }


PARTS: dict[str, Part] = {"completion": completion}
