"""Two heads of thirty neurons on frozen features: 15 + 15 on the binary task, ten times three on all classes."""

from __future__ import annotations

from functools import partial
from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.settings import after_training_on_test, gradient_descent, two_layer
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
    head, loss = ("balanced-signs", "logistic") if two else ("class-means", "cross-entropy")
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
        "model": two_layer(30, 1e-5, head=head),
        "training": gradient_descent(0.05, size.steps, loss=loss, fixed_head=True),
        "probe": after_training_on_test(["feature-cosines", "accuracy"]),
        "grid": {"of": [size.of], "centred": [False, True], "seed": list(range(10))},
    }


PARTS: dict[str, Part] = {
    "features-two": only_in("paper")(partial(heads, classes=2)),
    "features-ten": only_in("paper")(partial(heads, classes=10)),
}
