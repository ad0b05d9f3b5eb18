"""Sums of sines, of equal and of growing amplitudes."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_DEFAULT = 3**-0.5  # of PyTorch's default start
_SIZES = by_scale(
    n=(30, 80, 200),
    frequencies=((1, 2, 4), (2, 4, 6, 8, 10), (5, 10, 15, 20, 25, 30, 35, 40, 45, 50)),
    widths=([40] * 2, [80] * 3, [256] * 5),
    rate=(5e-3, 2e-3, 3e-4),
    epochs=(400, 5000, 60000),
    every=(40, 50, 200),
    noise=(0.1, 0.1, 0.1),
)


@only_in("paper")
def sines(scale: Scale) -> dict[str, Any]:
    """Adam on the square loss; residuals of every frequency over training, and under noise on the weights."""
    size = _SIZES[scale]
    start = {"name": "fan-in", "gain": 2**0.5, "bias": _DEFAULT}
    measures = [
        {"name": "frequency-residuals", "noise": size.noise, "every": "end"},
        {"name": "frequency-residuals", "every": size.every},
        {"name": "energy", "every": "ends"},
    ]
    return {
        "data": {"name": "fourier-sum", "n": size.n, "frequencies": list(size.frequencies), "seed": 0},
        "model": {"name": "mlp", "widths": size.widths, "init": start, "bias": True},
        "training": {
            "optimizer": "adam",
            "learning_rate": size.rate,
            "epochs": size.epochs,
            "loss": "square",
        },
        "probe": {"measures": measures, "every": "end"},
        "grid": {"growing": [False, True], "seed": list(range(10))},
    }


PARTS: dict[str, Part] = {"frequency": sines}
