"""Clusters with a fixed head, as in feature averaging; pictures, by every rule to one training loss."""

from __future__ import annotations

from functools import partial
from typing import Any

from undertow.studies.kit.presence import present
from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.settings import two_layer
from undertow.studies.kit.study import Part, Scale
from undertow.studies.optimisers.rules import SEEDS, trained_by

__all__ = ["EQUAL_LOSS", "EVERY_RULE", "PARTS", "PICTURES"]

EVERY_RULE = ("gd", "sign", "coordinate", "spectral", "adam")
PICTURES = {"digits": "digits", "mnist": "MNIST", "resnet": "a ResNet on CIFAR-10"}
CLUSTER_RATES = {"gd": 0.1, "sign": 0.003, "coordinate": 1.0, "spectral": 0.1, "adam": 0.003}
PICTURE_RATES = {"gd": 3.0, "sign": 0.1, "coordinate": 30.0, "spectral": 1.0, "adam": 0.1}
RESNET_RATES = {"gd": 3.0, "sign": 0.03, "spectral": 0.3, "adam": 0.03}
"""Chosen on seeds that are not among the study's (benchmarks/tune_rates.py). Coordinate descent has no part in ResNets:
a step moves one weight of three hundred thousand."""
EQUAL_LOSS = -0.7
"""log₁₀ of the training loss at which networks on pictures are compared, 0.2: every rule comes to it."""
_SIZES = by_scale(
    d=(120, 500, 3072),
    n=(40, 200, 1000),
    steps=(60, 300, 1000),
    samples=(200, 600, 1400),
    images=(200, 1000, 5000),
    most=(400, 2000, 5000),
    width=(16, 32, 64),
)


def clusters(scale: Scale, variant: str, *, rule: str) -> dict[str, Any]:  # noqa: ARG001
    """D_binary, ten neurons with biases and a fixed head, until the loss is 0.01."""
    size, frozen = _SIZES[scale], ["output.weight"]
    rate = CLUSTER_RATES[rule]
    return {
        "data": {"name": "d-binary", "n": size.n, "d": size.d, "k": 4},
        "model": two_layer(10, 1e-5, bias_std=1e-5, bias="hidden", head="balanced-signs"),
        "training": trained_by(rule, size.steps, loss="logistic", rate=rate, frozen=frozen, stop_below=-2.0),
        "probe": {"measures": [{"name": "feature-cosines", "pairs": False}, "loss"], "every": "end"},
        "grid": {"seed": SEEDS[scale]},
        "own_data": True,
    }


def pictures(scale: Scale, variant: str, *, rule: str, name: str) -> dict[str, Any] | None:  # noqa: ARG001
    """Digits of scikit-learn or MNIST, even or odd; all seeds share the points and are one batch."""
    if name == "mnist" and scale != "paper" and not (scale == "laptop" and present("mnist")):
        return None
    size, frozen = _SIZES[scale], ["output.weight"]
    limit = size.samples if name == "digits" else size.images
    return {
        "data": {"name": name, "limit": limit, "normalise": "unit-norm", "task": "parity"},
        "model": {
            "name": "two-layer",
            "width": size.width,
            "init": {"name": "scaled", "q": 0.25},
            "head": "signs",
        },
        "training": trained_by(
            rule, size.most, loss="bce", rate=PICTURE_RATES[rule], frozen=frozen, stop_below=EQUAL_LOSS
        ),
        "probe": {"measures": _described("activation"), "every": "ends"},
        "grid": {"seed": SEEDS["laptop"]},
    }


def residual(scale: Scale, variant: str, *, rule: str) -> dict[str, Any] | None:  # noqa: ARG001
    """First five against last five classes of CIFAR-10, a small residual network that normalises by its batches.

    For a GPU alone: forty such networks take two cores longer than the rest of the laptop scale.
    """
    if scale != "paper":
        return None
    return {
        "data": {"name": "cifar10", "task": "first-last", "limit": 5000, "normalise": "centred"},
        "model": {"name": "imagenet-resnet", "architecture": "resnet-10", "width": 16},
        "training": trained_by(
            rule,
            40,
            loss="bce",
            rate=RESNET_RATES[rule],
            batch_size=128,
            stop_below=EQUAL_LOSS,
            dtype="float32",
            matmul_precision="tf32",
        ),
        "probe": {"measures": _described("pool"), "every": "ends"},
        "grid": {"seed": SEEDS["laptop"]},
    }


def _described(seam: str) -> list[Any]:
    """Co-correlation and energies at a seam, stable ranks, sharpness; accuracy and loss over the whole training set."""
    some = {"name": "collaboration", "seam": seam, "limit": 64}
    return [some, "stable-rank", {"name": "sharpness", "limit": 1000}, "accuracy", "loss"]


PARTS: dict[str, Part] = {
    **{f"clusters-{rule}": partial(clusters, rule=rule) for rule in EVERY_RULE},
    **{
        f"{name}-{rule}": partial(pictures, rule=rule, name=name)
        for name in ("digits", "mnist")
        for rule in EVERY_RULE
    },
    **{f"resnet-{rule}": partial(residual, rule=rule) for rule in RESNET_RATES},
}
