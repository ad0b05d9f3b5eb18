"""Two-layer networks on slab data from small starts and from larger ones, to equal losses."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.settings import down_log_loss, two_layer
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SIZES = by_scale(
    d=(5, 10, 50),
    n=(40, 200, 5000),
    width=(20, 50, 300),
    starts=([0.001, 1.0], [0.001, 0.1, 1.0], [0.0001, 0.01, 1.0]),
    steps=(20, 200, 1000),
    stop=(-5.0, -30.0, -100.0),
    epochs=(1500, 10000, 100000),
)


def slab_margin(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """Steps η = α/𝓛 of the whole batch, which at first, where 𝓛 is near its start, are plain gradient descent."""
    size = _SIZES[scale]
    basin = {"name": "margin-basin", "steps": size.steps, "every": "end"}
    built = {"name": "coordinate-margin", "every": "end", "only": {"std": size.starts[0]}}
    return {
        "data": {"name": "slabs", "n": size.n, "d": size.d, "pieces": 3, "margin": 0.1},
        "model": two_layer(size.width, size.starts[0], bias="hidden", head="gaussian"),
        "training": down_log_loss(size.epochs, size.stop, optimizer="normalised-gd", learning_rate=0.05),
        "probe": {"measures": ["margins", "linear-likeness", basin, built], "every": "log"},
        "grid": {"std": size.starts, "seed": list(range(10))},
        "own_data": True,
    }


PARTS: dict[str, Part] = {"slab-margin": slab_margin}
