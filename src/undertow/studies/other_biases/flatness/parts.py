"""SGD with and without noise on the labels; several rates to one loss."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.settings import HALF_DECADES, gradient_descent, robustness_beside
from undertow.studies.kit.study import Part, Scale
from undertow.studies.other_biases.sharpness.parts import IMAGES, image_network, rates_of, sharpness_and_loss

__all__ = ["PARTS"]

_SIZES = by_scale(
    thresholds=((30, 5, 2.5), (30, 6, 3), (240, 120, 60)),
    epochs=(1000, 6000, 40000),
    loss=(-1.5, -1.5, -1.5),
    count=(1, 20, 20),
    beside_every=("end", HALF_DECADES, HALF_DECADES),
    noisy_count=(1, 10, 20),
    certify=(False, True, True),
    noisy_n=(20, 40, 1000),
    noisy_width=(15, 30, 200),
    noisy_epochs=(200, 750, 3000),
    noisy_every=(200, 500, 30000),
    noise=([0.0, 0.4], [0.0, 0.2], [0.0, 0.2]),
    noisy_rate=(0.1, 0.1, 0.01),
    probes=(60, 240, 240),
    batch_size=(10, 10, 10),  # the drift along the minima goes with η²σ²·steps/batch: 0.12 at either scale
)


@only_in("paper")
def equal_loss(scale: Scale) -> dict[str, Any]:
    """Images as one-hot targets: from one start with several rates, all to one loss; the first rate is the flow's.

    Every step is looked at: in eight the largest rate goes past the loss by up to a fifth of it.
    """
    size = _SIZES[scale]
    rates = rates_of(size.thresholds)
    measures = sharpness_and_loss("square", every=HALF_DECADES, loss_every=HALF_DECADES)
    beside = robustness_beside("activation1", count=size.count, every=size.beside_every, certify=size.certify)
    return {
        **image_network(scale),
        "training": {
            **gradient_descent(rates[0], size.epochs, loss="square", stop_below=size.loss, look_every=1),
            "matmul_precision": IMAGES[scale].precision,
        },
        "probe": {"measures": [*measures, *beside], "every": "end"},
        "grid": {"learning_rate": rates, "seed": list(range(10))},
    }


@only_in("paper")
def label_noise(scale: Scale) -> dict[str, Any]:
    """SGD on few images as one-hot targets, with Gaussian noise on these anew in every epoch, and without."""
    size = _SIZES[scale]
    settings = image_network(scale)
    every = size.noisy_every
    beside = robustness_beside("activation1", count=size.noisy_count, every=every, certify=size.certify)
    return {
        "data": {**settings["data"], "limit": size.noisy_n},
        "model": {**settings["model"], "widths": [size.noisy_width]},
        "training": {
            "optimizer": "sgd",
            "learning_rate": size.noisy_rate,
            "batch_size": size.batch_size,
            "label_noise": size.noise[0],
            "epochs": size.noisy_epochs,
            "loss": "square",
        },
        "probe": {
            "measures": [
                {"name": "hessian-trace", "loss": "square", "probes": size.probes, "every": every},
                {"name": "loss", "kind": "square", "every": every},
                *beside,
            ],
            "every": "end",
        },
        "grid": {"label_noise": size.noise, "seed": list(range(10))},
    }


PARTS: dict[str, Part] = {"edge-radius": equal_loss, "label-noise": label_noise}
