"""The Gaussian mixture of Kou, Chen & Gu (2023): two classes around ±μ, almost all of it noise."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from undertow.core.errors import InputError
from undertow.core.sections import Count, NonNegative
from undertow.data.data_section import DrawnData, Split
from undertow.data.dataset import Dataset
from undertow.data.drawing import cpu_generator, require_positive

__all__ = ["MixtureData", "kou_mixture"]


class MixtureData(DrawnData):
    """x = yμ + z with μ ~ N(0, σ_p² I_d), z ~ N(0, σ_e² I_d), y = ±1 (Kou, Chen & Gu 2023): the points trained on."""

    name: Literal["kou-mixture"]
    n: Count = 10
    d: Count = 784
    sigma_p: NonNegative = 0.01
    sigma_e: NonNegative = 1.0

    def draw(self, n: int, seed: int, *, like: Dataset | None) -> Dataset:
        signal = None if like is None else like.details["signal"]
        return kou_mixture(
            n=n, d=self.d, sigma_p=self.sigma_p, sigma_e=self.sigma_e, signal=signal, seed=seed
        )

    def check_split(self, split: Split | None) -> None:
        if split is not None:
            raise ValueError(f"{self.name} has no splits: leave probe.split out")

    def least_shape(self) -> tuple[int, int]:
        return self.n, self.d


def kou_mixture(
    *,
    n: int = 10,
    d: int = 784,
    sigma_p: float = 0.01,
    sigma_e: float = 1.0,
    signal: Tensor | None = None,
    seed: int = 0,
    generator: torch.Generator | None = None,
) -> Dataset:
    """y = ±1 with equal odds, x = y μ + z, with μ ~ N(0, σ_p² I_d) and z ~ N(0, σ_e² I_d).

    The defaults are those of the stable-rank report, Fig. 1. For n ≪ √d the samples are nearly orthogonal:
    ‖x_i‖² ≈ d σ_e², while |⟨x_i, x_k⟩| is of the order √d σ_e².

    Labels are 0 for y = −1 and 1 for y = +1. ``details`` has "signal" μ (d,), "noise" z (n, d) and
    "sign" y (n,). Pass another set's signal to draw test data of the same distribution; ``generator``, a
    CPU one, replaces ``seed``.

    >>> data = kou_mixture(n=4, d=6, seed=1)
    >>> tuple(data.x.shape), set(data.y.tolist()) <= {0, 1}
    ((4, 6), True)
    """
    require_positive("kou_mixture", n=n, d=d)
    if sigma_p < 0 or sigma_e < 0:
        raise InputError(f"kou_mixture: sigma_p={sigma_p} and sigma_e={sigma_e} must not be negative.")
    draw = cpu_generator(seed, generator)
    if signal is None:
        mu = sigma_p * torch.randn(d, generator=draw, dtype=torch.float64)
    elif signal.shape == (d,):
        mu = signal.detach().cpu().double()
    else:
        raise InputError(f"kou_mixture: signal has shape {tuple(signal.shape)}; it must be ({d},).")
    y = torch.randint(2, (n,), generator=draw)
    z = sigma_e * torch.randn(n, d, generator=draw, dtype=torch.float64)
    sign = 2 * y - 1
    return Dataset.of(
        (sign[:, None] * mu + z).float(),
        y,
        name="kou-mixture",
        classes=2,
        details={"signal": mu.float(), "noise": z.float(), "sign": sign},
        aligned=("noise", "sign"),
    )
