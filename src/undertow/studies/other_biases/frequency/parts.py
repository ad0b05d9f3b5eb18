"""Sums of sines, of equal and of growing amplitudes, and with noise of one frequency on the labels."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.settings import smoothness_beside
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_DEFAULT = 3**-0.5  # of PyTorch's default start
_SIZES = by_scale(
    n=(30, 80, 200),
    frequencies=((1, 2, 4), (2, 4, 6, 8, 10), (5, 10, 15, 20, 25, 30, 35, 40, 45, 50)),
    widths=([40] * 2, [80] * 3, [256] * 5),
    rate=(5e-3, 2e-3, 3e-4),
    epochs=(400, 5000, 60000),
    every=(40, 50, 200),
    noise=(0.1, 0.1, 0.1),
    wide_widths=([40] * 2, [100, 100, 100, 50], [200, 200, 200, 100]),
    wide_rate=(5e-3, 1e-3, 1e-4),
    wide_epochs=(200, 1500, 20000),
    wide_every=(20, 20, 50),
    beside_every=(400, 250, 2000),
    target=((1,), (1, 2, 3), (5, 10)),
    noise_frequencies=([2, 4, 6], [4, 6, 8, 10, 12], [15, 20, 30, 40, 50]),
)


def _adam(rate: float, epochs: int) -> dict[str, Any]:
    return {"optimizer": "adam", "learning_rate": rate, "epochs": epochs, "loss": "square"}


def _sines(scale: Scale, **data: Any) -> dict[str, Any]:
    """ReLU networks, Adam on the square loss; residuals of every frequency over training, and what is read beside."""
    size = _SIZES[scale]
    start = {"name": "fan-in", "gain": 2**0.5, "bias": _DEFAULT}
    residuals = {"name": "frequency-residuals", "every": size.every}
    beside = smoothness_beside("activation1", every=size.beside_every)
    return {
        "data": {"name": "fourier-sum", "n": size.n, **data},
        "model": {"name": "mlp", "widths": size.widths, "init": start, "bias": True},
        "training": _adam(size.rate, size.epochs),
        "probe": {"measures": [residuals, *beside], "every": "end"},
    }


@only_in("paper")
def sines(scale: Scale) -> dict[str, Any]:
    """A sum, with amplitudes that are equal or grow; after training also under noise on the weights."""
    size = _SIZES[scale]
    settings = _sines(scale, frequencies=list(size.frequencies), seed=0)
    under_noise = {"name": "frequency-residuals", "noise": size.noise, "every": "end"}
    return {
        **settings,
        "probe": {"measures": [under_noise, *settings["probe"]["measures"]], "every": "end"},
        "grid": {"growing": [False, True], "seed": list(range(10))},
    }


@only_in("paper")
def noise_on_labels(scale: Scale) -> dict[str, Any]:
    """A sum of low frequencies, and on the labels a sine of half the amplitude as noise; every seed has its phases.

    The loss on the points between those trained on is that of the sum without noise.
    """
    size = _SIZES[scale]
    noise = {"noise_frequency": size.noise_frequencies[0], "noise_amplitude": 0.5}
    settings = _sines(scale, frequencies=list(size.target), **noise)
    between = {"name": "loss", "kind": "square", "split": "test", "every": size.every}
    return {
        **settings,
        "probe": {"measures": [*settings["probe"]["measures"], between], "every": "end"},
        "own_data": True,
        "grid": {"noise_frequency": size.noise_frequencies, "seed": list(range(10))},
    }


@only_in("paper")
def wide(scale: Scale) -> dict[str, Any]:
    """A low and a high frequency, 1 : 4, on [−10, 10), tanh networks (sin x + sin 4x in Xu et al. 2019)."""
    size = _SIZES[scale]
    start = {"name": "fan-in", "gain": _DEFAULT, "bias": _DEFAULT}
    beside = smoothness_beside("activation1", every=10 * size.wide_every)
    model = {"name": "mlp", "widths": size.wide_widths, "activation": "tanh", "init": start, "bias": True}
    return {
        "data": {"name": "fourier-sum", "n": 61, "frequencies": [3, 12], "stretch": 20.0, "seed": 0},
        "model": model,
        "training": _adam(size.wide_rate, size.wide_epochs),
        "probe": {"measures": ["frequency-residuals", *beside], "every": size.wide_every},
        "grid": {"seed": list(range(10))},
    }


PARTS: dict[str, Part] = {
    "frequency": sines,
    "frequency-noise": noise_on_labels,
    "frequency-wide": wide,
}
