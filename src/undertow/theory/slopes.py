"""Activations σ with their slopes σ′ and curvatures σ″, and the bound M ≥ |σ′| that Theorem 5.5 assumes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from undertow.core.errors import ModelError

__all__ = ["Slopes", "slopes_of"]


@dataclass(frozen=True)
class Slopes:
    """σ, σ′ and σ″ as functions of h, and ``bound`` = sup |σ′|, the M of Assumption 5.4 (Wang, Min & Ruan 2024).

    Where σ has a kink its slope there is 0 or the smaller one, as in PyTorch; the paper takes the larger at h = 0,
    which no network with random weights meets.
    """

    value: Callable[[Tensor], Tensor]
    first: Callable[[Tensor], Tensor]
    second: Callable[[Tensor], Tensor]
    bound: float


def slopes_of(activation: nn.Module | None) -> Slopes:
    """The slopes of an activation; of the identity for None.

    >>> slopes_of(nn.LeakyReLU(0.25)).first(torch.tensor([-4.0, 2.0]))
    tensor([0.2500, 1.0000])
    >>> [round(slopes_of(each).bound, 4) for each in (None, nn.ReLU(), nn.Tanh(), nn.GELU())]
    [1.0, 1.0, 1.0, 1.1289]
    """
    if activation is None or type(activation) is nn.Identity:
        return Slopes(lambda h: h, torch.ones_like, torch.zeros_like, 1.0)
    if type(activation) is nn.ReLU:
        return Slopes(torch.relu, lambda h: (h > 0).to(h), torch.zeros_like, 1.0)
    if type(activation) is nn.LeakyReLU:
        low = activation.negative_slope
        steepness = max(1.0, abs(low))
        return Slopes(activation, lambda h: _two_slopes(h, low), torch.zeros_like, steepness)
    if type(activation) is nn.Tanh:
        return Slopes(torch.tanh, _tanh_first, _tanh_second, 1.0)
    if type(activation) is nn.GELU and activation.approximate == "none":
        # σ′ = Φ(h) + hφ(h) is steepest where σ″ = φ(h)(2 − h²) changes sign, at h = √2.
        top = float(_gelu_first(torch.tensor(math.sqrt(2.0), dtype=torch.float64)))
        return Slopes(nn.functional.gelu, _gelu_first, _gelu_second, top)
    raise ModelError(
        f"the theory of co-correlation growth knows no derivatives of {activation}: "
        "use ReLU, LeakyReLU, Tanh, GELU or no activation."
    )


def _two_slopes(h: Tensor, low: float) -> Tensor:
    # Numbers in torch.where would be float32, and 0.01 is another number there.
    return torch.where(h > 0, h.new_ones(()), h.new_full((), low))


def _tanh_first(h: Tensor) -> Tensor:
    return 1 - h.tanh().square()


def _tanh_second(h: Tensor) -> Tensor:
    value = h.tanh()
    return -2 * value * (1 - value.square())


def _gelu_first(h: Tensor) -> Tensor:
    below: Tensor = torch.special.ndtr(h)
    return below + h * _normal_density(h)


def _gelu_second(h: Tensor) -> Tensor:
    return _normal_density(h) * (2 - h.square())


def _normal_density(h: Tensor) -> Tensor:
    return torch.exp(-h.square() / 2) / math.sqrt(2 * math.pi)
