"""pReLU networks of several powers p, on clusters with several noises α."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.settings import after_training_on_test
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_RADII = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
_SIZES = by_scale(
    d=(20, 100, 1000),
    n=(200, 2000, 20000),
    width=(60, 100, 2000),
    start=(1e-2, 1e-7, 1e-7),
    epochs=(120, 100, 40),
    alphas=([0.1], [0.03, 0.3], [0.01, 0.03, 0.1, 0.2, 0.3]),
    points=(4, 40, 500),
    starts=(4, 64, 256),  # from which the largest distance is searched
    radii=([0.5], _RADII, _RADII),
)


@only_in("paper")  # nothing here depends on the variant
def powers(scale: Scale) -> dict[str, Any]:
    """The grid of powers p and noises α."""
    size = _SIZES[scale]
    noises = [alpha / size.d**0.5 for alpha in size.alphas]
    clusters = {"k": 10, "positive": 6, "norm": 1.0, "sigma": noises[0]}
    measures = [
        {"name": "feature-distance", "starts": size.starts},
        "accuracy",
        {"name": "loss", "kind": "exponential"},
        {"name": "robust-accuracy", "eps": size.radii, "attack": "apgd-ce"},
    ]
    return {
        "data": {"name": "axis-clusters", "n": size.n, "d": size.d, **clusters},
        "model": {"name": "prelu", "width": size.width, "power": 1.0, "scale": size.start},
        "training": {
            "optimizer": "sgd",
            "learning_rate": 0.2,
            "batch_size": 100,
            "epochs": size.epochs,
            "loss": "exponential",
        },
        "probe": after_training_on_test(measures, size.points),
        "grid": {"power": [1.0, 3.0], "sigma": noises, "seed": list(range(10))},
    }


PARTS: dict[str, Part] = {"min-vidal": powers}
