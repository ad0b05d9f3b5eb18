"""Modular addition, by scale of the start and by weight decay."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SIZES = by_scale(
    p=(23, 37, 113),
    share=(0.7, 0.5, 0.4),
    width=(64, 100, 200),
    rate=(0.05, 0.03, 0.01),
    decays=([3.0, 1.5], [3.0, 1.5], [3.0, 1.5]),
    gains=([2**0.5, 8**0.5], [2**0.5, 8**0.5], [2**0.5, 8**0.5, 32**0.5]),
    epochs=(240, 1000, 10000),
    every=(20, 10, 50),
    radius_every=(120, 250, 1000),
    attacked=(1, 4, 50),
)


@only_in("paper")
def modular_addition(scale: Scale) -> dict[str, Any]:
    """AdamW on cross-entropy; margins, frequencies, ranks and radii through the jump."""
    size = _SIZES[scale]
    start = {"name": "fan-in", "gain": size.gains[0]}
    optimizer = {"name": "adamw", "beta2": 0.98, "weight_decay": size.decays[0]}
    measures = [
        {"name": "late-generalisation", "every": size.every},
        {"name": "stable-rank", "every": size.every},
        {"name": "attacked-radius", "count": size.attacked, "every": size.radius_every},
    ]
    return {
        "data": {"name": "modular-addition", "p": size.p, "share": size.share, "seed": 0},
        "model": {"name": "mlp", "widths": [size.width] * 2, "init": start},
        "training": {"optimizer": optimizer, "learning_rate": size.rate, "epochs": size.epochs},
        "probe": {"measures": measures, "every": size.every, "split": "all"},
        "grid": {"weight_decay": size.decays, "gain": size.gains, "seed": list(range(10))},
    }


PARTS: dict[str, Part] = {"grokking": modular_addition}
