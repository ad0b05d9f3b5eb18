"""Modular addition by six trainings, and images: with AdamW or gradient descent, with and without weight decay."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.settings import robustness_beside
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_HE = 2**0.5
_DEFAULT = 3**-0.5  # of PyTorch's start
_SEEDS = list(range(10))
_SIZES = by_scale(
    p=(17, 37, 113),
    share=(0.7, 0.5, 0.4),
    width=(48, 100, 200),
    rate=(0.05, 0.03, 0.01),
    decays=([3.0, 1.5], [3.0, 1.5], [3.0, 1.5]),
    gains=([_HE, 2 * _HE], [_HE, 2 * _HE], [_HE, 4 * _HE]),
    epochs=(240, 1000, 1000),
    every=(20, 10, 20),
    beside_every=(120, 100, 100),
    count=(1, 4, 4),
    certify=(False, True, False),  # a proof with 113 classes takes longer than the training
)
_PUBLISHED = by_scale(
    p=(11, 113, 113),
    share=(0.7, 0.4, 0.4),
    width=(30, 200, 200),
    rate=(0.05, 0.05, 0.05),
    decay=(3.0, 3.0, 3.0),
    epochs=(60, 200, 200),
    every=(20, 10, 10),
    count=(0, 4, 4),
)
_TRANSFORMER = by_scale(
    p=(7, 23, 113),
    share=(0.6, 0.6, 0.3),
    width=(8, 32, 128),
    heads=(2, 4, 4),
    rate=(0.01, 0.01, 3e-3),
    decay=(1.0, 2.0, 1.0),
    epochs=(60, 1000, 6000),
    every=(20, 20, 50),
    beside_every=("ends", 250, 1000),
    count=(0, 2, 2),
    precision=("float32", "float32", "tf32"),
)
_DESCENT = by_scale(
    p=(11, 23, 97),
    share=(0.8, 0.8, 0.4),
    width=(30, 100, 256),
    rate=(5.0, 5.0, 10.0),
    decay=(1e-3, 1e-3, 1e-4),
    gains=([8 * _HE, 32 * _HE], [8 * _HE, 32 * _HE, 128 * _HE], [8 * _HE, 32 * _HE, 128 * _HE]),
    epochs=(400, 2200, 12000),
    every=(20, 20, 100),
    beside_every=(400, 440, 3000),
    count=(1, 4, 4),
    certify=(False, True, False),
    free_epochs=(120, 3000, 30000),
    free_beside_every=(120, 500, 5000),
)
_IMAGES = by_scale(
    name=("digits", "digits", "mnist"),
    n=(50, 200, 1000),
    width=(20, 50, 200),
    rate=(1e-2, 1e-2, 1e-3),
    decay=(0.1, 0.015, 0.01),
    epochs=(200, 16000, 100000),
    every=(20, 100, 500),
    looked_at=(150, 600, 5000),
    beside_every=("ends", 2000, 10000),
    count=(1, 4, 4),
    certify=(False, True, True),
)


def _addition(
    size: Any, model: dict[str, Any], training: dict[str, Any], grid: dict[str, Any]
) -> dict[str, Any]:
    """Addition mod p, one split of the pairs; margins, frequencies and ranks on all of them."""
    measures = [
        {"name": "late-generalisation", "every": size.every},
        {"name": "stable-rank", "every": size.every},
    ]
    return {
        "data": {"name": "modular-addition", "p": size.p, "share": size.share, "seed": 0},
        "model": model,
        "training": {"learning_rate": size.rate, "epochs": size.epochs, **training},
        "probe": {"measures": measures, "every": size.every, "split": "all"},
        "grid": {**grid, "seed": _SEEDS},
    }


def _and_radii(settings: dict[str, Any], seam: str, **options: Any) -> dict[str, Any]:
    """The same with what is asked beside every bias."""
    probe = settings["probe"]
    profile = robustness_beside(seam, **options)[1:]  # ranks are read more often
    return {**settings, "probe": {**probe, "measures": [*probe["measures"], *profile]}}


def _perceptron(layers: int, width: int, gain: float) -> dict[str, Any]:
    return {"name": "mlp", "widths": [width] * layers, "init": {"name": "fan-in", "gain": gain}}


def _adamw(decay: float, beta2: float = 0.98) -> dict[str, Any]:
    return {"name": "adamw", "beta2": beta2, "weight_decay": decay}


@only_in("paper")
def quick(scale: Scale) -> dict[str, Any]:
    """AdamW on cross-entropy, fully connected networks of two hidden layers, by start and decay."""
    size = _SIZES[scale]
    model = _perceptron(2, size.width, size.gains[0])
    grid = {"weight_decay": size.decays, "gain": size.gains}
    settings = _addition(size, model, {"optimizer": _adamw(size.decays[0])}, grid)
    return _and_radii(
        settings, "activation1", count=size.count, every=size.beside_every, certify=size.certify
    )


@only_in("paper")
def published(scale: Scale) -> dict[str, Any]:
    """The quick setting to the letter: p = 113, 40 % of the pairs, 200-200, from PyTorch's own start."""
    size = _PUBLISHED[scale]
    model = {**_perceptron(2, size.width, _DEFAULT), "bias": True}
    model["init"] = {**model["init"], "bias": _DEFAULT}
    training = {"optimizer": _adamw(size.decay, 0.99)}
    settings = _addition(size, model, training, {"weight_decay": [size.decay]})
    # A proof with 113 classes takes longer than the training.
    return _and_radii(settings, "activation1", count=size.count, every=5 * size.every, certify=False)


@only_in("paper")
def transformer(scale: Scale) -> dict[str, Any]:
    """A transformer of one layer, as in Nanda et al. 2023 at paper scale."""
    size = _TRANSFORMER[scale]
    model = {"name": "transformer", "width": size.width, "heads": size.heads, "gain": 1.0}
    grid = {"weight_decay": [size.decay], "gain": [1.0]}
    training = {"optimizer": _adamw(size.decay), "matmul_precision": size.precision}
    settings = _addition(size, model, training, grid)
    # A proof of a transformer with p classes takes longer than its training.
    return _and_radii(settings, "embed", count=size.count, every=size.beside_every, certify=False)


@only_in("paper")
def descent(scale: Scale) -> dict[str, Any]:
    """Gradient descent with weight decay on two-layer ReLU networks from large starts; radii of two attackers."""
    size = _DESCENT[scale]
    optimizer = {"name": "heavy-ball", "momentum": 0.0, "weight_decay": size.decay}
    grid = {"weight_decay": [size.decay], "gain": size.gains, "learning_rate": [size.rate]}
    settings = _addition(size, _perceptron(1, size.width, size.gains[0]), {"optimizer": optimizer}, grid)
    options = {"norms": ["2", "inf"], "certify": size.certify}
    return _and_radii(settings, "activation1", count=size.count, every=size.beside_every, **options)


@only_in("paper")
def without_decay(scale: Scale) -> dict[str, Any]:
    """The same networks without decay, from He's start, with steps α∇L/L: gradient descent on the margin alone."""
    size = _DESCENT[scale]
    rate = {"name": "loss-based", "frame_at_start": 10.0}
    training = {"learning_rate": 0.1, "rate": rate, "epochs": size.free_epochs}
    settings = _addition(size, _perceptron(1, size.width, _HE), training, {"gain": [_HE]})
    options = {"every": size.free_beside_every, "certify": size.certify}
    return _and_radii(settings, "activation1", count=size.count, **options)


@only_in("paper")
def images(scale: Scale) -> dict[str, Any]:
    """Few images and the square loss, AdamW, from eight times the usual start: MNIST at paper scale, digits below."""
    size = _IMAGES[scale]
    settings = {
        "data": {"name": size.name, "limit": size.n},
        "model": _perceptron(3, size.width, 8 * 3**-0.5),
        "training": {
            "optimizer": _adamw(size.decay),
            "learning_rate": size.rate,
            "epochs": size.epochs,
            "loss": "square",
        },
        "probe": {
            "measures": ["late-generalisation", "stable-rank"],
            "every": size.every,
            "split": "all",
            "limit": size.looked_at,
        },
        "grid": {"weight_decay": [size.decay], "seed": _SEEDS},
    }
    options = {"every": size.beside_every, "certify": size.certify}
    return _and_radii(settings, "activation1", count=size.count, **options)


PARTS: dict[str, Part] = {
    "grokking": quick,
    "grokking-published": published,
    "grokking-transformer": transformer,
    "grokking-descent": descent,
    "grokking-without-decay": without_decay,
    "grokking-images": images,
}
