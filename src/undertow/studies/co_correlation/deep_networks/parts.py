"""The grids of Figure 2: ResNet-50 with both starts of its residual branches, and WRN-50-2.

CIFAR-10 goes at its own size through ImageNet's stem, pixels as (x − 0.5)/0.5, and Adam has a rate of 5·10⁻⁴.
``authors`` is what their code does: batches of 1,024 in the order of the data, the read-out frozen, and BatchNorm in
train mode for the first epoch alone, because measuring calls ``eval()`` and nothing calls ``train()`` again. ``paper``
is what the text says and usual practice adds: all layers trained, batches drawn anew in every epoch, BatchNorm as it
should be. The last BatchNorm of a residual branch starts with scale 0 in the package that the authors use (timm) and
with 1 in torchvision: part ``deep-start`` is the same with 1. The variants differ in three things at once; part
``deep-statistics`` has the authors' settings but for one, BatchNorm by the batch in every epoch.

Steps are computed in TF32, which a trial's settings say; everything is measured in float32 with a bound on rounding.
Smaller scales train a narrow network of the same family with fewer blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from undertow.studies.co_correlation.setting import EPS, axes
from undertow.studies.kit.presence import present
from undertow.studies.kit.study import Part, Scale

__all__ = ["ALL", "CUTS", "PARTS"]

CUTS = ("conv1", "bn1", "act", "maxpool", "layer1", "layer2", "layer3", "layer4", "pool")
"""The nine places between the ten modules in a row, from input to output; the tenth module is ``fc``."""

ALL = "all"
"""What goes before the keys of the profile after training: at every cut, on more points.

Along training the ninth cut is left out. Pictures of 32×32 are a single pixel there, and pooling it changes nothing:
the ninth cut is the eighth.
"""


@dataclass(frozen=True)
class _Size:
    """What a scale trains on and measures; ``every`` and ``rarely`` are epochs between two profiles."""

    data: Literal["cifar10", "digits"]
    samples: int | None
    batch: int
    epochs: int
    every: int
    rarely: int
    points: int
    last_points: int
    tested: int
    architecture: str = "resnet-50"
    wide: str = "wrn-50-2"
    width: int = 64
    group_size: int = 1  # a profile keeps one core busy and not a GPU: one process for each network

    @property
    def image(self) -> list[int]:
        return [3, 32, 32] if self.data == "cifar10" else [1, 8, 8]

    @property
    def steps_per_epoch(self) -> int:
        return -(-(self.samples or 50_000) // self.batch)


_SMALL: dict[str, Any] = {"architecture": "resnet-10", "wide": "wrn-10-2", "group_size": 6}
_SIZES: dict[Scale, _Size] = {
    "smoke": _Size("digits", 200, 50, 2, 2, 2, points=3, last_points=4, tested=60, width=2, **_SMALL),
    "laptop": _Size("cifar10", 2_000, 100, 8, 2, 4, points=12, last_points=24, tested=200, width=8, **_SMALL),
    "paper": _Size("cifar10", None, 1024, 50, 5, 10, points=250, last_points=1_000, tested=2_000),
}


def deep_networks(scale: Scale, variant: str) -> dict[str, Any] | None:
    """ResNet-50 as the authors' package starts it: every residual branch at 0."""
    size = _size(scale)
    return _settings(size, variant, size.architecture, start=0.0, seeds=6, every=size.every)


def deep_start(scale: Scale, variant: str) -> dict[str, Any] | None:
    """The same with residual branches that start at scale 1."""
    size = _size(scale)
    return _settings(size, variant, size.architecture, start=1.0, seeds=6, every=size.rarely)


def deep_statistics(scale: Scale, variant: str) -> dict[str, Any] | None:
    """The authors' settings with BatchNorm by the batch throughout; ``paper`` has that in all of its parts."""
    if variant != "authors":
        return None
    size = _size(scale)
    seeds = 2 if scale == "smoke" else 6
    found = _settings(size, variant, size.architecture, start=0.0, seeds=seeds, every=size.rarely)
    if found is None:
        return None
    probe = found["probe"]
    if (
        scale == "smoke"
    ):  # the cut that its claim is about, twice: profiles of all of them are most of a smoke's time
        profile = {
            "name": "seam-profile",
            "rtol": 1e-2,
            "seams": [CUTS[-2]],
            "limit": size.points,
            "every": "ends",
        }
        probe = {**probe, "measures": [profile, "accuracy", "loss"]}
    return {**found, "training": {**found["training"], "batch_statistics_epochs": None}, "probe": probe}


def deep_wide(scale: Scale, variant: str) -> dict[str, Any] | None:
    """WRN-50-2; two seeds are shown, and decide nothing."""
    size = _size(scale)
    return _settings(size, variant, size.wide, start=0.0, seeds=2, every=size.rarely)


def _size(scale: Scale) -> _Size:
    """Where CIFAR-10 is not on this machine, ``laptop`` takes as many of scikit-learn's digits as there are."""
    size = _SIZES[scale]
    return (
        replace(size, data="digits", samples=1_400) if scale == "laptop" and not present("cifar10") else size
    )


def _settings(
    size: _Size, variant: str, architecture: str, *, start: float, seeds: int, every: int
) -> dict[str, Any] | None:
    if variant == "paper-low-high":  # a matter of MNIST's classes
        return None
    authors = variant == "authors"
    sections: dict[str, Any] = {
        "data": {"name": size.data, "limit": size.samples, "normalise": "centred"},
        "model": {
            "name": "imagenet-resnet",
            "architecture": architecture,
            "image": size.image,
            "width": size.width,
            "residual_start": start,
        },
        "training": {
            "optimizer": "adam",
            "learning_rate": 5e-4,
            "batch_size": size.batch,
            "shuffle": not authors,
            "epochs": size.epochs,
            "loss": "cross-entropy",
            "frozen": ["fc.weight", "fc.bias"] if authors else [],
            "matmul_precision": "tf32",
            "batch_statistics_epochs": 1 if authors else None,
        },
    }
    return {
        **sections,
        "probe": {
            "measures": _measures(size, every),
            "every": every * size.steps_per_epoch,
            "split": "test",
            "limit": size.tested,
        },
        "grid": axes(sections, seeds, architecture=[architecture], residual_start=[start]),
        "group_size": size.group_size,
    }


def _measures(size: _Size, every: int) -> list[Any]:
    profile = {"name": "seam-profile", "rtol": 1e-2}
    return [
        {**profile, "seams": list(CUTS), "limit": size.last_points, "label": ALL, "every": "end"},
        {**profile, "seams": list(CUTS[:-1]), "limit": size.points, "every": every * size.steps_per_epoch},
        "accuracy",
        "loss",
        {
            "name": "robust-accuracy",
            "eps": [EPS],
            "attack": "apgd-ce",
            "unit": 2.0,
            "box": [-1.0, 1.0],
            "every": "end",
            "limit": size.points,
        },
    ]


PARTS: dict[str, Part] = {
    "deep-networks": deep_networks,
    "deep-start": deep_start,
    "deep-statistics": deep_statistics,
    "deep-wide": deep_wide,
}
