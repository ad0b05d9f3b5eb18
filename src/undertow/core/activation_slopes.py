"""First and second derivatives of activations, written out: accurate in the tails, with their limits at ±∞.

Where a factor that vanishes meets one that grows, the second is held at a value beyond which the first is 0 in float64:
the product is the same, and 0 at infinity instead of NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = [
    "Elementwise",
    "between",
    "exponential_second",
    "exponential_slope",
    "gelu_second",
    "gelu_slope",
    "hard_swish_slope",
    "mish_second",
    "mish_slope",
    "sigmoid_second",
    "sigmoid_slope",
    "silu_second",
    "silu_slope",
    "softsign_second",
    "softsign_slope",
    "tanh_gelu_second",
    "tanh_gelu_slope",
    "tanh_second",
    "tanh_slope",
    "two_slopes",
]

Elementwise = Callable[[Tensor], Tensor]

_NORMAL, _LOGISTIC, _TANH_GELU = 40.0, 800.0, 12.0  # beyond these e^(−z²/2), e^(−|z|) and 1 − tanh² u are 0


def two_slopes(low: float) -> Elementwise:
    """1 above zero, ``low`` elsewhere.

    >>> two_slopes(0.5)(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([0.5000, 0.5000, 1.0000])
    """
    # Numbers in torch.where would be float32, and 0.01 is another number there.
    return lambda z: torch.where(z > 0, z.new_ones(()), z.new_full((), low))


def between(low: float, high: float, inside: float) -> Elementwise:
    """``inside`` strictly between two kinks, 0 elsewhere.

    >>> between(0.0, 6.0, 1.0)(torch.tensor([0.0, 3.0, 6.0]))
    tensor([0., 1., 0.])
    """
    return lambda z: ((z > low) & (z < high)).to(z) * inside


def tanh_slope(z: Tensor) -> Tensor:
    """1 − tanh² z."""
    return 1 - z.tanh().square()


def tanh_second(z: Tensor) -> Tensor:
    """−2 tanh z (1 − tanh² z)."""
    value = z.tanh()
    return -2 * value * (1 - value.square())


def sigmoid_slope(z: Tensor) -> Tensor:
    """s(z) s(−z), which keeps its digits where 1 − s(z) has none.

    >>> sigmoid_slope(torch.tensor([0.0, 50.0])).tolist() == [0.25, float(torch.sigmoid(torch.tensor(-50.0)))]
    True
    """
    return torch.sigmoid(z) * torch.sigmoid(-z)


def sigmoid_second(z: Tensor) -> Tensor:
    """−s(z) s(−z) tanh(z/2)."""
    return -sigmoid_slope(z) * torch.tanh(z / 2)


def silu_slope(z: Tensor) -> Tensor:
    """s(z) (1 + z s(−z)) of σ(z) = z s(z)."""
    z = z.clamp(-_LOGISTIC, _LOGISTIC)
    return torch.sigmoid(z) * (1 + z * torch.sigmoid(-z))


def silu_second(z: Tensor) -> Tensor:
    """s(z) s(−z) (2 − z tanh(z/2))."""
    z = z.clamp(-_LOGISTIC, _LOGISTIC)
    return sigmoid_slope(z) * (2 - z * torch.tanh(z / 2))


def mish_slope(z: Tensor) -> Tensor:
    """t + z (1 − t²) s(z) of σ(z) = z t, t = tanh(log(1 + e^z))."""
    z = z.clamp(-_LOGISTIC, _LOGISTIC)
    t = torch.tanh(torch.nn.functional.softplus(z))
    return t + z * (1 - t.square()) * torch.sigmoid(z)


def mish_second(z: Tensor) -> Tensor:
    """(1 − t²) s(z) (2 + z (s(−z) − 2 t s(z)))."""
    z = z.clamp(-_LOGISTIC, _LOGISTIC)
    t, s = torch.tanh(torch.nn.functional.softplus(z)), torch.sigmoid(z)
    return (1 - t.square()) * s * (2 + z * (torch.sigmoid(-z) - 2 * t * s))


def gelu_slope(z: Tensor) -> Tensor:
    """Φ(z) + z φ(z) of σ(z) = z Φ(z)."""
    below: Tensor = torch.special.ndtr(z)
    return below + z.clamp(-_NORMAL, _NORMAL) * _normal_density(z)


def gelu_second(z: Tensor) -> Tensor:
    """φ(z) (2 − z²)."""
    return _normal_density(z) * (2 - z.clamp(-_NORMAL, _NORMAL).square())


def _normal_density(z: Tensor) -> Tensor:
    return torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)


_ROOT, _CUBE = math.sqrt(2 / math.pi), 0.044715  # u = √(2/π) (z + 0.044715 z³)


def tanh_gelu_slope(z: Tensor) -> Tensor:
    """½(1 + tanh u) + ½ z (1 − tanh² u) u′ of σ(z) = ½ z (1 + tanh u)."""
    z = z.clamp(-_TANH_GELU, _TANH_GELU)
    t = torch.tanh(_ROOT * (z + _CUBE * z**3))
    return 0.5 * (1 + t) + 0.5 * z * (1 - t.square()) * _ROOT * (1 + 3 * _CUBE * z.square())


def tanh_gelu_second(z: Tensor) -> Tensor:
    """(1 − tanh² u) (u′ + ½ z (u″ − 2 u′² tanh u))."""
    z = z.clamp(-_TANH_GELU, _TANH_GELU)
    t = torch.tanh(_ROOT * (z + _CUBE * z**3))
    first, second = _ROOT * (1 + 3 * _CUBE * z.square()), 6 * _ROOT * _CUBE * z
    return (1 - t.square()) * (first + 0.5 * z * (second - 2 * first.square() * t))


def softsign_slope(z: Tensor) -> Tensor:
    """(1 + |z|)⁻²."""
    return (1 + z.abs()).pow(-2)


def softsign_second(z: Tensor) -> Tensor:
    """−2 sign(z) (1 + |z|)⁻³."""
    return -2 * z.sign() * (1 + z.abs()).pow(-3)


def hard_swish_slope(z: Tensor) -> Tensor:
    """z/3 + ½ between −3 and 3; 0 before, 1 behind."""
    return torch.where(z >= 3, 1.0, between(-3.0, 3.0, 1.0)(z) * (z.clamp(-3, 3) / 3 + 0.5))


def exponential_slope(factor: float, decay: float, *, above: float = 1.0) -> Elementwise:
    """``factor``·e^(z/decay) up to zero, ``above`` beyond it.

    >>> exponential_slope(0.5, 1.0)(torch.tensor([0.0, 1.0]))
    tensor([0.5000, 1.0000])
    """
    return lambda z: torch.where(z > 0, z.new_full((), above), factor * torch.exp(z.clamp(max=0) / decay))


def exponential_second(factor: float, decay: float) -> Elementwise:
    """``factor``·e^(z/decay) up to zero, 0 beyond it."""
    return exponential_slope(factor, decay, above=0.0)
