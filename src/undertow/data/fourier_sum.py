"""Sums of sines: which of their frequencies a network learns first (Rahaman et al. 2019)."""

from __future__ import annotations

import math
from typing import Literal

import torch

from undertow.core.errors import InputError
from undertow.core.sections import Count, Positive, Switch, WithLaterOptions
from undertow.data.data_section import DrawnData
from undertow.data.dataset import Dataset
from undertow.data.drawing import cpu_generator, require_positive

__all__ = ["FourierSumData", "fourier_sum"]


class FourierSumData(WithLaterOptions, DrawnData):
    """A sum of sines at n even points; the split "test" are points between them; see :func:`fourier_sum`."""

    LATER = ("stretch",)

    name: Literal["fourier-sum"]
    n: Count = 200
    frequencies: tuple[Count, ...] = (5, 10, 15, 20, 25, 30, 35, 40, 45, 50)
    growing: Switch = False
    stretch: Positive | None = None

    def draw(self, n: int, seed: int, *, like: Dataset | None) -> Dataset:
        phases = None if like is None else like.details["phases"]
        between = like is not None
        return fourier_sum(
            n=n,
            frequencies=self.frequencies,
            growing=self.growing,
            seed=seed,
            phases=phases,
            offset=0.5 if between else 0.0,
            stretch=self.stretch,
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
) -> Dataset:
    """Σ_k A_k sin(2πkz + φ_k) at z = (i + ``offset``)/n, i < n, with φ_k uniform; the input is z.

    Amplitudes are 1, or with ``growing`` evenly spaced from 0.1 at the lowest to 1 at the highest frequency. With
    ``stretch`` s the input is s(z − ½), and the frequencies that are told are those in it, k/s.

    >>> data = fourier_sum(n=4, frequencies=(1,), phases=torch.zeros(1))
    >>> data.x.flatten().tolist(), [round(value, 6) for value in data.labels.abs().tolist()]
    ([0.0, 0.25, 0.5, 0.75], [0.0, 1.0, 0.0, 1.0])
    """
    require_positive("fourier-sum", n=n, frequencies=len(frequencies))
    if 2 * max(frequencies) >= n:
        raise InputError(f"fourier-sum: {n} points tell frequencies below {n / 2:g} apart; use more points.")
    draw = cpu_generator(seed, None)
    drawn = 2 * math.pi * torch.rand(len(frequencies), generator=draw, dtype=torch.float64)
    own = drawn if phases is None else phases.double()
    low = 0.1 if growing else 1.0
    amplitudes = torch.linspace(low, 1.0, len(frequencies), dtype=torch.float64)
    z = (torch.arange(n, dtype=torch.float64) + offset) / n
    k = torch.tensor(frequencies, dtype=torch.float64)
    targets = (amplitudes * torch.sin(2 * math.pi * k * z[:, None] + own)).sum(1)
    details = {"frequencies": k / (stretch or 1.0), "phases": own, "amplitudes": amplitudes}
    inputs = z if stretch is None else stretch * (z - 0.5)
    return Dataset.of_targets(inputs[:, None].float(), targets.float(), name="fourier-sum", details=details)
