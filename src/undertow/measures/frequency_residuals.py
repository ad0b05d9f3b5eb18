"""How much of each frequency of a target a network has yet to learn, and how much its weights' noise destroys."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.sections import Count, NonNegative, Seed
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for

__all__ = ["FrequencyResiduals", "coefficients", "with_noise"]


def coefficients(values: Tensor, z: Tensor, frequencies: Tensor) -> Tensor:
    """f̂(k) = (2/n) Σ_i f(z_i) e^(−2πi k z_i), complex128: of A sin(2πkz + φ) at even points the modulus is A.

    >>> z = torch.arange(8).double() / 8
    >>> round(float(coefficients(3 * torch.sin(2 * math.pi * 2 * z + 1), z, torch.tensor([2.0])).abs()), 6)
    3.0
    """
    angles = -2 * math.pi * frequencies.double()[:, None] * z.double()[None, :]
    return 2 / len(z) * torch.polar(torch.ones_like(angles), angles) @ values.to(torch.complex128)


def with_noise(net: nn.Module, delta: float, generator: torch.Generator) -> nn.Module:
    """A copy at θ + δ‖θ‖ξ, ξ a random unit vector in the space of all weights."""
    copied = deepcopy(net)
    weights = list(copied.parameters())
    size = math.sqrt(sum(float(weight.detach().double().square().sum()) for weight in weights))
    draws = [torch.randn(weight.shape, generator=generator, dtype=torch.float64) for weight in weights]
    length = math.sqrt(sum(float(draw.square().sum()) for draw in draws))
    with torch.no_grad():
        for weight, draw in zip(weights, draws, strict=True):
            weight.add_((delta * size / length * draw).to(weight))
    return copied


class FrequencyResiduals(NamedMeasure):
    """``residual:k`` = |ŷ(k) − f̂(k)|/|ŷ(k)| at each frequency k of the target: 1 before, 0 when it is learned.

    With ``noise`` δ > 0 also ``kept:k`` = Re f̂_δ(k) f̂(k)*/|f̂(k)|², the mean over ``draws`` of random noise on the
    weights of relative size δ (Rahaman et al. 2019, §4): 1 where nothing is destroyed.
    """

    name: ClassVar[str] = "frequency-residuals"
    noise: NonNegative = 0.0
    draws: Count = 20
    seed: Seed = 0

    def about(self, details: Mapping[str, Tensor]) -> _OfFrequencies:
        """The measure for a target whose frequencies are known."""
        if "frequencies" not in details:
            raise InputError(f"{self.name} needs a target of known frequencies: choose the data fourier-sum.")
        return _OfFrequencies(self, details["frequencies"])

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        raise InputError(f"{self.name} needs a target of known frequencies: see FrequencyResiduals.about.")


@dataclass(frozen=True, eq=False)
class _OfFrequencies:
    name: ClassVar[str] = FrequencyResiduals.name
    options: FrequencyResiduals
    frequencies: Tensor

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        z, k = x[:, 0], self.frequencies.to(x.device)
        names = [f"{each:g}" for each in k.tolist()]
        target, found = coefficients(labels_for(self, y), z, k), self._of(net, x, k)
        for name, value in zip(names, ((target - found).abs() / target.abs()).tolist(), strict=True):
            yield f"residual:{name}", value, None
        if self.options.noise > 0:
            draw = torch.Generator().manual_seed(self.options.seed)
            copies = (with_noise(net, self.options.noise, draw) for _ in range(self.options.draws))
            mean = torch.stack([self._of(copy, x, k) for copy in copies]).mean(0)
            kept = (mean * found.conj()).real / found.abs().square().clamp(min=1e-300)
            yield from (
                (f"kept:{name}", value, None) for name, value in zip(names, kept.tolist(), strict=True)
            )

    def _of(self, net: nn.Module, x: Tensor, k: Tensor) -> Tensor:
        with torch.no_grad():
            return coefficients(net(x)[:, 0].double(), x[:, 0], k)
