"""Grids of learning rates, each written by the threshold 2/η that it has."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.settings import gradient_descent, robustness_beside, smoothness_beside
from undertow.studies.kit.study import Part, Scale
from undertow.theory.edge_of_stability import Momentum, stability_threshold

__all__ = ["BETA", "IMAGES", "PARTS", "image_network", "rates_of", "sharpness_and_loss"]

BETA = 0.5  # of momentum: with 0.9 a step at the edge is nineteen times as long, in effect, as without
_DEFAULT = 3**-0.5  # of PyTorch's default start: variances 1/(3·inputs)
_START = {"name": "fan-in", "gain": _DEFAULT, "bias": _DEFAULT}
_SEEDS = list(range(10))
_SIZES = by_scale(
    width=(30, 100, 100),
    thresholds=((40, 12), (160, 40, 20), (400, 80, 40, 20)),
    heavy_ball_thresholds=((40,), (100, 60), (100, 60)),
    nesterov_thresholds=((40,), (60, 30), (60, 30)),
    epochs=(600, 6000, 20000),
    every=(150, 200, 400),
    loss_every=(50, 25, 50),
    depth=(6, 10, 20),
    d=(10, 20, 50),
    linear_epochs=(300, 3000, 8000),
    linear_thresholds=((100, 20), (400, 80, 50), (1600, 400, 200)),
    image_thresholds=((20, 5), (40, 12, 6), (400, 200, 60, 20)),
    image_epochs=(200, 1500, 10000),
    image_looks=(5, 25, 25),
    beside_looks=(1, 5, 5),
    activations=(["tanh"], ["tanh", "relu", "elu", "softplus"], ["tanh", "relu", "elu", "softplus"]),
    beside=(1, 4, 20),
    certify=(False, True, True),
    entropy_thresholds=((6, 1), (6, 1), (200, 20)),
    entropy_epochs=(250, 2000, 40000),
    entropy_every=(125, 50, 2000),
    entropy_beside_every=(125, 250, 8000),
    batch_sizes=([10, 30, 60], [10, 30, 100], [50, 500, 5000]),
    batch_threshold=(5, 6, 60),
    batch_epochs=(100, 500, 400),
    batch_looks=("end", "log", "log"),
    batch_beside=("end", "doublings", "doublings"),
)
_ONE_LAYER = by_scale(
    degrees=([3, 4], [3, 4, 5], [3, 4, 5]),
    width=(30, 100, 100),
    thresholds=((40, 12), (80, 30, 20), (100, 60, 40, 30, 20)),
    epochs=(600, 40000, 200000),  # a start has a sharpness of 20, and 22 after 6,000 steps
    every=(150, 1000, 4000),
    loss_every=(50, 100, 500),
)
IMAGES = by_scale(
    name=("digits", "digits", "cifar10"),
    n=(60, 100, 5000),
    width=(20, 30, 200),
    precision=("float32", "float32", "tf32"),
)


def rates_of(
    thresholds: tuple[float, ...], *, beta: float = 0.0, momentum: Momentum = "heavy-ball"
) -> list[float]:
    """The rates whose thresholds these are."""
    return [stability_threshold(1.0, beta=beta, momentum=momentum) / each for each in thresholds]


def sharpness_and_loss(loss: str, *, every: int | str, loss_every: int | str) -> list[dict[str, Any]]:
    """Both over training, in the words of a probe."""
    return [
        {"name": "sharpness", "loss": loss, "every": every},
        {"name": "loss", "kind": loss, "every": loss_every},
    ]


def image_network(scale: Scale) -> dict[str, Any]:
    """Images (5,000 of CIFAR-10 at paper scale, digits below) and a fully connected network of two hidden layers."""
    images = IMAGES[scale]
    widths = [images.width] * 2
    return {
        "data": {"name": images.name, "limit": images.n, "normalise": "standardised"},
        "model": {"name": "mlp", "widths": widths, "activation": "tanh", "init": _START, "bias": True},
    }


def _small(size: Any, rates: list[float], **training: Any) -> dict[str, Any]:
    """Training and readings of networks on few points."""
    measures = sharpness_and_loss("square", every=size.every, loss_every=size.loss_every)
    beside = smoothness_beside("activation1", every=size.every)
    return {
        "training": {"learning_rate": rates[0], "epochs": size.epochs, "loss": "square", **training},
        "probe": {"measures": [*measures, *beside], "every": "end"},
        "grid": {"learning_rate": rates, "seed": _SEEDS},
    }


def _chebyshev(size: Any, optimizer: Any, rates: list[float], *, layers: int = 2) -> dict[str, Any]:
    widths = [size.width] * layers
    return {
        "data": {"name": "chebyshev", "n": 20, "degree": 4},
        "model": {"name": "mlp", "widths": widths, "activation": "tanh", "init": _START, "bias": True},
        **_small(size, rates, optimizer=optimizer),
    }


@only_in("paper")
def edge(scale: Scale) -> dict[str, Any]:
    """Chebyshev's polynomial of degree 4 on 20 points, tanh networks; the first rate is the flow's."""
    return _chebyshev(_SIZES[scale], "gd", rates_of(_SIZES[scale].thresholds))


@only_in("paper")
def by_degree(scale: Scale) -> dict[str, Any]:
    """Degrees 3, 4 and 5 with one hidden layer of 100, as Cohen et al. have it."""
    size = _ONE_LAYER[scale]
    settings = _chebyshev(size, "gd", rates_of(size.thresholds), layers=1)
    return {**settings, "grid": {"degree": size.degrees, **settings["grid"]}}


def _with_momentum(name: Momentum) -> Part:
    """The same with momentum β; the flow arm is that of gradient descent."""

    @only_in("paper")
    def part(scale: Scale) -> dict[str, Any]:
        size = _SIZES[scale]
        own = size.heavy_ball_thresholds if name == "heavy-ball" else size.nesterov_thresholds
        rates = rates_of(own, beta=BETA, momentum=name)
        return _chebyshev(size, {"name": name, "momentum": BETA}, rates)

    return part


@only_in("paper")
def deep_linear(scale: Scale) -> dict[str, Any]:
    """Deep linear networks that learn a random matrix from whitened inputs."""
    size = _SIZES[scale]
    rates = rates_of(size.linear_thresholds)
    start = {"name": "fan-in", "gain": 0.8}
    widths = [size.d] * (size.depth - 1)
    return {
        "data": {"name": "linear-map", "n": size.d, "d": size.d, "seed": 0},
        "model": {"name": "mlp", "widths": widths, "activation": "linear", "init": start},
        **_small(size, rates, epochs=size.linear_epochs),
    }


def _robustness(scale: Scale, *, every: int | str) -> list[dict[str, Any]]:
    """What is read beside the sharpness of networks on images."""
    size = _SIZES[scale]
    return robustness_beside("activation1", count=size.beside, every=every, certify=size.certify)


@only_in("paper")
def images(scale: Scale) -> dict[str, Any]:
    """Images as one-hot targets, four activations, rates 2/20 … 2/200 at paper scale."""
    size = _SIZES[scale]
    rates = rates_of(size.image_thresholds)
    measures = sharpness_and_loss(
        "square", every=size.image_epochs // size.image_looks, loss_every=size.image_epochs // 50
    )
    beside = _robustness(scale, every=size.image_epochs // size.beside_looks)
    return {
        **image_network(scale),
        "training": gradient_descent(
            rates[0], size.image_epochs, loss="square", matmul_precision=IMAGES[scale].precision
        ),
        "probe": {"measures": [*measures, *beside], "every": "end"},
        "grid": {"activation": size.activations, "learning_rate": rates, "seed": _SEEDS},
    }


@only_in("paper")
def batches(scale: Scale) -> dict[str, Any]:
    """The same images by SGD with one rate and batches of several sizes, the largest of which is all of them."""
    size = _SIZES[scale]
    (rate,) = rates_of((size.batch_threshold,))
    measures = sharpness_and_loss("square", every=size.batch_looks, loss_every="log")
    return {
        **image_network(scale),
        "training": {
            "optimizer": "sgd",
            "learning_rate": rate,
            "batch_size": size.batch_sizes[0],
            "epochs": size.batch_epochs,
            "loss": "square",
            "matmul_precision": IMAGES[scale].precision,
        },
        "probe": {"measures": [*measures, *_robustness(scale, every=size.batch_beside)], "every": "end"},
        "grid": {"batch_size": size.batch_sizes, "learning_rate": [rate], "seed": _SEEDS},
    }


@only_in("paper")
def cross_entropy(scale: Scale) -> dict[str, Any]:
    """Images under cross-entropy."""
    size = _SIZES[scale]
    rates = rates_of(size.entropy_thresholds)
    measures = sharpness_and_loss("cross-entropy", every=size.entropy_every, loss_every=size.loss_every)
    beside = _robustness(scale, every=size.entropy_beside_every)
    return {
        **image_network(scale),
        "training": gradient_descent(
            rates[0], size.entropy_epochs, loss="cross-entropy", matmul_precision=IMAGES[scale].precision
        ),
        "probe": {"measures": [*measures, *beside], "every": "end"},
        "grid": {"learning_rate": rates, "seed": _SEEDS},
    }


PARTS: dict[str, Part] = {
    "edge": edge,
    "edge-chebyshev": by_degree,
    "edge-heavy-ball": _with_momentum("heavy-ball"),
    "edge-nesterov": _with_momentum("nesterov"),
    "edge-linear": deep_linear,
    "edge-images": images,
    "edge-batches": batches,
    "edge-cross-entropy": cross_entropy,
}
