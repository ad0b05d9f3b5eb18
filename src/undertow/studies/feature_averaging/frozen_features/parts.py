"""Two heads of thirty neurons on frozen features: 15 + 15 on the binary task, ten times three on all classes."""

from __future__ import annotations

from functools import partial
from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SIZES = by_scale(
    of=("digits", "digits", "cifar10"),
    channels=([4], [8, 16, 32], [64, 128, 256, 512]),
    blocks=(1, 1, 2),
    train=(100, None, None),
    epochs=(1, 15, 12),
    batch=(128, 128, 512),
    steps=(30, 1000, 1000),
)


def heads(scale: Scale, *, classes: int) -> dict[str, Any]:
    """A small residual network, trained on all classes and then frozen, and a head on its features.

    The paper takes a downloaded ResNet-18 on CIFAR-10; at paper scale ours is trained on that, at smaller ones on
    scikit-learn's digits.
    """
    size, two = _SIZES[scale], classes == 2
    task = "first-last" if size.of == "cifar10" else "parity"
    return {
        "data": {
            "name": "features",
            "of": size.of,
            "task": task if two else None,
            "channels": size.channels,
            "blocks": size.blocks,
            "train": size.train,
            "epochs": size.epochs,
            "batch_size": size.batch,
        },
        "model": {
            "name": "two-layer",
            "width": 30,
            "init": {"name": "gaussian", "std": 1e-5},
            "head": "balanced-signs" if two else "class-means",
        },
        "training": {
            "optimizer": "gd",
            "learning_rate": 0.05,
            "epochs": size.steps,
            "loss": "logistic" if two else "cross-entropy",
            "frozen": ["output.weight"],
        },
        "probe": {"measures": ["feature-cosines", "accuracy"], "every": "end", "split": "test"},
        "grid": {"of": [size.of], "centred": [False, True], "seed": list(range(10))},
    }


PARTS: dict[str, Part] = {
    "features-two": only_in("paper")(partial(heads, classes=2)),
    "features-ten": only_in("paper")(partial(heads, classes=10)),
}
