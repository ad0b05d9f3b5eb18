"""Networks of one architecture with one logit for the binary task, or with the ten classes behind it."""

from __future__ import annotations

from functools import partial
from typing import Any

from undertow.studies.kit.presence import present
from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.settings import after_training_on_test
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_RADII = {"digits": [0.2, 0.4, 0.6, 0.9, 1.2], "mnist": [0.5, 1.0, 1.5, 2.0, 3.0]}  # images of norm 3 and 9
_SIZES = by_scale(
    width=(16, 128, 512),
    epochs=(5, 30, 30),
    points=(8, 30, 1000),
    radii=(slice(1), slice(5), slice(5)),
    square=(slice(0), slice(1, 2), slice(5)),  # the radii at which all four of AutoAttack's attacks run
    plain=("pgd-once", "pgd", "pgd"),
)


def digits(scale: Scale, *, classes: int) -> dict[str, Any]:
    """MNIST's parity with one logit or ten classes: two-layer networks on pixels in [0, 1].

    MNIST at paper scale; on a laptop 5,000 images of it where it is on this machine, and digits otherwise.
    """
    size = _SIZES[scale]
    mnist = scale == "paper" or (scale == "laptop" and present("mnist"))
    name, limit = "mnist" if mnist else "digits", 5000 if mnist and scale == "laptop" else None
    eps = _RADII[name][size.radii]
    ways = {"eps": eps, "square": eps[size.square], "plain": size.plain}
    attacks = {"name": "supervision", "task": "parity", **ways}
    return {
        "data": {"name": name, "limit": limit, "task": "parity" if classes == 2 else None},
        "model": {"name": "mlp", "widths": [size.width]},
        "training": _training(classes, rate=0.003, epochs=size.epochs),
        # The examples are for the report's grid browser.
        "probe": {**after_training_on_test([attacks], size.points), "examples": 4},
        "grid": {"data.name": [name], "seed": list(range(10))},
    }


def cifar(scale: Scale, *, classes: int) -> dict[str, Any] | None:
    """First five against last five classes of CIFAR-10, for a small residual network; at paper scale only."""
    if scale != "paper":
        return None
    attacks = {"name": "supervision", "task": "halves", "eps": [0.1, 0.25, 0.5, 1.0], "plain": "pgd-once"}
    return {
        "data": {"name": "cifar10", "task": "first-last" if classes == 2 else None},
        "model": {"name": "resnet", "image": [3, 32, 32], "channels": [32, 64, 128], "blocks": 1},
        "training": {**_training(classes, rate=0.001, epochs=12), "matmul_precision": "tf32"},
        "probe": after_training_on_test([attacks], 500),
        "grid": {"data.name": ["cifar10"], "seed": list(range(10))},
    }


def _training(classes: int, *, rate: float, epochs: int) -> dict[str, Any]:
    loss = "bce" if classes == 2 else "cross-entropy"
    return {"optimizer": "adam", "learning_rate": rate, "batch_size": 128, "epochs": epochs, "loss": loss}


PARTS: dict[str, Part] = {
    f"{name}-{word}": only_in("paper")(partial(make, classes=classes))
    for name, make in (("images", digits), ("cifar", cifar))
    for word, classes in (("two", 2), ("ten", 10))
}
