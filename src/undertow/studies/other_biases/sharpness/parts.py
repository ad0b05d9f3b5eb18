"""Grids of learning rates, each written by the threshold 2/η that it has."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_DEFAULT = 3**-0.5  # of PyTorch's default start: variances 1/(3·inputs)
_START = {"name": "fan-in", "gain": _DEFAULT, "bias": _DEFAULT}
_SIZES = by_scale(
    width=(30, 100, 100),
    thresholds=((40, 12), (160, 40, 20), (400, 80, 40, 20)),
    momentum_thresholds=((40,), (100,), (200, 100)),
    epochs=(800, 6000, 40000),
    every=(200, 200, 400),
    loss_every=(50, 25, 50),
    depth=(6, 10, 20),
    d=(10, 20, 50),
    linear_epochs=(300, 3000, 8000),
    linear_thresholds=((100, 20), (400, 80, 50), (1600, 400, 200)),
    images=("digits", "digits", "cifar10"),
    n=(60, 100, 5000),
    image_width=(20, 30, 200),
    image_thresholds=((30, 5, 2.5), (30, 6, 3), (600, 200, 50, 20)),
    image_epochs=(1000, 6000, 40000),
    loss=(-1.0, -1.5, -1.5),
    attacked=(2, 20, 100),
    entropy_thresholds=((6, 1), (6, 1), (200, 20)),
    entropy_epochs=(250, 2000, 20000),
)


def _rates(thresholds: tuple[float, ...], *, momentum: float = 0.0, nesterov: bool = False) -> list[float]:
    """The rates whose thresholds these are."""
    return [
        (2 + 2 * momentum) / ((1 + 2 * momentum if nesterov else 1) * threshold) for threshold in thresholds
    ]


def _probed(loss: str, size: Any, *more: Any, every: int | None = None) -> dict[str, Any]:
    measures = [
        {"name": "sharpness", "loss": loss, "every": every or size.every},
        {"name": "loss", "kind": loss, "every": size.loss_every},
        *more,
    ]
    return {"measures": measures, "every": "end"}


def _chebyshev(scale: Scale, optimizer: Any, rates: list[float]) -> dict[str, Any]:
    size = _SIZES[scale]
    return {
        "data": {"name": "chebyshev", "n": 20, "degree": 4},
        "model": {
            "name": "mlp",
            "widths": [size.width] * 2,
            "activation": "tanh",
            "init": _START,
            "bias": True,
        },
        "training": {
            "optimizer": optimizer,
            "learning_rate": rates[0],
            "epochs": size.epochs,
            "loss": "square",
        },
        "probe": _probed("square", size),
        "grid": {"learning_rate": rates, "seed": list(range(10))},
    }


@only_in("paper")
def edge(scale: Scale) -> dict[str, Any]:
    """Chebyshev's polynomial of degree 4 on 20 points, tanh networks; the first rate is the flow's."""
    return _chebyshev(scale, "gd", _rates(_SIZES[scale].thresholds))


@only_in("paper")
def heavy_ball(scale: Scale) -> dict[str, Any]:
    """The same with v ← 0.9 v + g; the flow arm is that of gradient descent."""
    rates = _rates(_SIZES[scale].momentum_thresholds, momentum=0.9)
    return _chebyshev(scale, {"name": "heavy-ball", "momentum": 0.9}, rates)


@only_in("paper")
def nesterov(scale: Scale) -> dict[str, Any]:
    """The same with Nesterov's momentum."""
    rates = _rates(_SIZES[scale].momentum_thresholds, momentum=0.9, nesterov=True)
    return _chebyshev(scale, {"name": "nesterov", "momentum": 0.9}, rates)


@only_in("paper")
def deep_linear(scale: Scale) -> dict[str, Any]:
    """Deep linear networks that learn a random matrix from whitened inputs."""
    size = _SIZES[scale]
    rates = _rates(size.linear_thresholds)
    start = {"name": "fan-in", "gain": 0.8}
    widths = [size.d] * (size.depth - 1)
    return {
        "data": {"name": "linear-map", "n": size.d, "d": size.d, "seed": 0},
        "model": {"name": "mlp", "widths": widths, "activation": "linear", "init": start},
        "training": {"learning_rate": rates[0], "epochs": size.linear_epochs, "loss": "square"},
        "probe": _probed("square", size),
        "grid": {"learning_rate": rates, "seed": list(range(10))},
    }


def _images(scale: Scale, loss: str, rates: list[float], training: dict[str, Any]) -> dict[str, Any]:
    size = _SIZES[scale]
    widths = [size.image_width] * 2
    return {
        "data": {"name": size.images, "limit": size.n, "normalise": "standardised"},
        "model": {"name": "mlp", "widths": widths, "activation": "tanh", "init": _START, "bias": True},
        "training": {"learning_rate": rates[0], "loss": loss, **training},
        "grid": {"learning_rate": rates, "seed": list(range(10))},
    }


@only_in("paper")
def cross_entropy(scale: Scale) -> dict[str, Any]:
    """Digits (5,000 images of CIFAR-10 at paper scale) under cross-entropy."""
    size = _SIZES[scale]
    settings = _images(
        scale, "cross-entropy", _rates(size.entropy_thresholds), {"epochs": size.entropy_epochs}
    )
    return {**settings, "probe": _probed("cross-entropy", size, every=size.every // 4)}


@only_in("paper")
def equal_loss(scale: Scale) -> dict[str, Any]:
    """The same images as one-hot targets: from one start with several rates, all to one loss."""
    size = _SIZES[scale]
    training = {"epochs": size.image_epochs, "stop_below": size.loss}
    settings = _images(scale, "square", _rates(size.image_thresholds), training)
    attack = {"name": "attacked-radius", "count": size.attacked, "every": "end"}
    return {**settings, "probe": _probed("square", size, attack, "energy", every=5 * size.every)}


PARTS: dict[str, Part] = {
    "edge": edge,
    "edge-heavy-ball": heavy_ball,
    "edge-nesterov": nesterov,
    "edge-linear": deep_linear,
    "edge-cross-entropy": cross_entropy,
    "edge-radius": equal_loss,
}
