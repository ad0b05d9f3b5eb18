"""Sums of sines: which of their frequencies a network learns first (Rahaman et al. 2019)."""

from __future__ import annotations

import math
from typing import Literal, Self

import torch
from pydantic import model_validator

from undertow.core.errors import InputError
from undertow.core.sections import Count, Positive, Switch, WithLaterOptions
from undertow.data.data_section import DrawnData
from undertow.data.dataset import Dataset
from undertow.data.drawing import cpu_generator, require_positive

__all__ = ["FourierSumData", "fourier_sum"]


class FourierSumData(WithLaterOptions, DrawnData):
    """A sum of sines at n even points, on "test" between them and without noise; see :func:`fourier_sum`."""

    LATER = ("stretch", "noise_frequency", "noise_amplitude")

    name: Literal["fourier-sum"]
    n: Count = 200
    frequencies: tuple[Count, ...] = (5, 10, 15, 20, 25, 30, 35, 40, 45, 50)
    growing: Switch = False
    stretch: Positive | None = None
    noise_frequency: Count | None = None
    noise_amplitude: Positive | None = None

    @model_validator(mode="after")
    def _noise_is_both(self) -> Self:
        if (self.noise_frequency is None) != (self.noise_amplitude is None):
            raise ValueError("noise has a noise_frequency and a noise_amplitude: give both, or neither")
        return self

    def draw(self, n: int, seed: int, *, like: Dataset | None) -> Dataset:
        phases = None if like is None else like.details["phases"]
        between = like is not None
        k, amplitude = self.noise_frequency, self.noise_amplitude
        return fourier_sum(
            n=n,
            frequencies=self.frequencies,
            growing=self.growing,
            seed=seed,
            phases=phases,
            offset=0.5 if between else 0.0,
            stretch=self.stretch,
            noise=None if between or k is None or amplitude is None else (k, amplitude),
        )

    def least_shape(self) -> tuple[int, int]:
        return self.n, 1


def fourier_sum(
    *,
    n: int = 200,
    frequencies: tuple[int, ...],
    growing: bool = False,
    seed: int = 0,
    phases: torch.Tensor | None = None,
    offset: float = 0.0,
    stretch: float | None = None,
    noise: tuple[int, float] | None = None,
) -> Dataset:
    """Σ_k A_k sin(2πkz + φ_k) at z = (i + ``offset``)/n, i < n, with φ_k uniform; the input is z.

    Amplitudes are 1, or with ``growing`` evenly spaced from 0.1 at the lowest to 1 at the highest frequency. With
    ``stretch`` s the input is s(z − ½), and the frequencies that are told are those in it, k/s. ``noise`` (k, A) is a
    sine more, of a frequency that the sum has not and with a phase of its own: told as one of the frequencies.

    >>> data = fourier_sum(n=4, frequencies=(1,), phases=torch.zeros(1))
    >>> data.x.flatten().tolist(), [round(value, 6) for value in data.labels.abs().tolist()]
    ([0.0, 0.25, 0.5, 0.75], [0.0, 1.0, 0.0, 1.0])
    """
    require_positive("fourier-sum", n=n, frequencies=len(frequencies))
    every, low = list(frequencies), 0.1 if growing else 1.0
    amplitudes = torch.linspace(low, 1.0, len(frequencies), dtype=torch.float64)
    if noise is not None:
        if noise[0] in frequencies:
            raise InputError(
                f"fourier-sum: the sum has the noise's frequency {noise[0]} itself; take another."
            )
        every.append(noise[0])
        amplitudes = torch.cat([amplitudes, amplitudes.new_tensor([noise[1]])])
    if 2 * max(every) >= n:
        raise InputError(f"fourier-sum: {n} points tell frequencies below {n / 2:g} apart; use more points.")
    drawn = 2 * math.pi * torch.rand(len(every), generator=cpu_generator(seed, None), dtype=torch.float64)
    # Of phases that are given the first ones: those of points without noise.
    own = drawn if phases is None else phases.double()[: len(every)]
    z = (torch.arange(n, dtype=torch.float64) + offset) / n
    k = torch.tensor(every, dtype=torch.float64)
    targets = (amplitudes * torch.sin(2 * math.pi * k * z[:, None] + own)).sum(1)
    details = {"frequencies": k / (stretch or 1.0), "phases": own, "amplitudes": amplitudes}
    inputs = z if stretch is None else stretch * (z - 0.5)
    return Dataset.of_targets(inputs[:, None].float(), targets.float(), name="fourier-sum", details=details)
