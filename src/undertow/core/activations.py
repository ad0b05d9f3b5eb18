"""The activations that are known: σ, its slope σ′ and its second derivative σ″, for everyone who reads a network.

A module is recognised by its exact type, and its parameters (negative_slope, approximate, alpha, beta, …) are read off
it. The slope at a kink is the one PyTorch's autograd gives there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from undertow.core import activation_slopes as slopes
from undertow.core.activation_slopes import Elementwise

__all__ = ["ACTIVATIONS", "LINEAR", "Activation", "activation_of"]


@dataclass(frozen=True)
class Activation:
    """σ, applied to every coordinate alone, with what bounds and theorems want to know of it.

    ===================  ==============================================================================
    ``name``             as configuration files write it
    ``value``            σ(z); never in place
    ``slope``            σ′(z); at a kink as PyTorch's autograd has it
    ``second``           σ″(z), where it exists; 0 at kinks
    ``slope_range``      inf σ′ and sup σ′ over all z
    ``kinks``            where σ′ jumps
    ``homogeneous``      whether σ(c·z) = c·σ(z) for every c > 0
    ``piecewise_linear`` whether σ″ = 0 everywhere but at the kinks
    ===================  ==============================================================================
    """

    name: str
    value: Elementwise
    slope: Elementwise
    second: Elementwise
    slope_range: tuple[float, float]
    kinks: tuple[float, ...] = ()
    homogeneous: bool = False
    piecewise_linear: bool = False

    @property
    def steepness(self) -> float:
        """sup |σ′|, the Lipschitz constant of σ."""
        return max(abs(end) for end in self.slope_range)


def activation_of(module: nn.Module) -> Activation | None:
    """The activation that a module is; None for any other module, and for subclasses, which may compute anything.

    >>> sigma = activation_of(nn.LeakyReLU(0.25))
    >>> sigma.name, sigma.slope(torch.tensor([-4.0, 2.0])), sigma.slope_range
    ('leaky-relu', tensor([0.2500, 1.0000]), (0.25, 1.0))
    >>> [round(activation_of(each).steepness, 4) for each in (nn.Identity(), nn.ReLU(), nn.Tanh(), nn.GELU())]
    [1.0, 1.0, 1.0, 1.1289]
    >>> activation_of(nn.Linear(2, 2)) is None
    True
    """
    read = _READERS.get(type(module))
    return None if read is None else read(module)


def _piecewise(
    name: str,
    value: Elementwise,
    slope: Elementwise,
    slope_range: tuple[float, float],
    kinks: tuple[float, ...],
    *,
    homogeneous: bool = False,
) -> Activation:
    """A piecewise linear activation: its second derivative is 0."""
    return Activation(name, value, slope, torch.zeros_like, slope_range, kinks, homogeneous, True)


LINEAR = _piecewise("linear", lambda z: z, torch.ones_like, (1.0, 1.0), (), homogeneous=True)
_RELU = _piecewise("relu", torch.relu, lambda z: (z > 0).to(z), (0.0, 1.0), (0.0,), homogeneous=True)
_TANH = Activation("tanh", torch.tanh, slopes.tanh_slope, slopes.tanh_second, (0.0, 1.0))
_SIGMOID = Activation("sigmoid", torch.sigmoid, slopes.sigmoid_slope, slopes.sigmoid_second, (0.0, 0.25))
# The ends of the ranges, where they have no closed form, are rounded outward in the last digit.
_SILU = Activation(
    "silu", functional.silu, slopes.silu_slope, slopes.silu_second, (-0.099839320128867, 1.099839320128867)
)
_MISH = Activation(
    "mish", functional.mish, slopes.mish_slope, slopes.mish_second, (-0.112526122389463, 1.088498161251729)
)
_SOFTSIGN = Activation(
    "softsign", functional.softsign, slopes.softsign_slope, slopes.softsign_second, (0.0, 1.0)
)
_LOG_SIGMOID = Activation(
    "log-sigmoid",
    functional.logsigmoid,
    lambda z: torch.sigmoid(-z),
    lambda z: -slopes.sigmoid_slope(z),
    (0.0, 1.0),
)
_TANH_SHRINK = Activation(
    "tanhshrink",
    functional.tanhshrink,
    lambda z: z.tanh().square(),
    lambda z: -slopes.tanh_second(z),
    (0.0, 1.0),
)
_HARD_SIGMOID = _piecewise(
    "hard-sigmoid", functional.hardsigmoid, slopes.between(-3.0, 3.0, 1 / 6), (0.0, 1 / 6), (-3.0, 3.0)
)
_HARD_SWISH = Activation(
    "hard-swish",
    functional.hardswish,
    slopes.hard_swish_slope,
    slopes.between(-3.0, 3.0, 1 / 3),
    (-0.5, 1.5),
    (-3.0, 3.0),
)


def _leaky_relu(module: Any) -> Activation:
    low = float(module.negative_slope)
    return _piecewise(
        "leaky-relu",
        lambda z: functional.leaky_relu(z, low),
        slopes.two_slopes(low),
        (min(low, 1.0), max(low, 1.0)),
        (0.0,),
        homogeneous=True,
    )


def _hard_tanh(module: Any) -> Activation:
    low, high = float(module.min_val), float(module.max_val)
    name = "relu6" if type(module) is nn.ReLU6 else "hard-tanh"
    clip: Elementwise = lambda z: functional.hardtanh(z, low, high)  # noqa: E731
    return _piecewise(name, clip, slopes.between(low, high, 1.0), (0.0, 1.0), (low, high))


def _soft_shrink(module: Any) -> Activation:
    reach = float(module.lambd)
    return _piecewise(
        "softshrink",
        lambda z: functional.softshrink(z, reach),
        lambda z: (z.abs() > reach).to(z),
        (0.0, 1.0),
        (-reach, reach),
    )


def _gelu(module: Any) -> Activation:
    if module.approximate == "none":
        # σ′ = Φ(z) + zφ(z) is steepest where σ″ = φ(z)(2 − z²) changes sign, at z = √2; and 1 − σ′(z) = σ′(−z).
        top = float(slopes.gelu_slope(torch.tensor(math.sqrt(2.0), dtype=torch.float64)))
        return Activation("gelu", functional.gelu, slopes.gelu_slope, slopes.gelu_second, (1 - top, top))
    return Activation(
        "gelu-tanh",
        lambda z: functional.gelu(z, approximate="tanh"),
        slopes.tanh_gelu_slope,
        slopes.tanh_gelu_second,
        (-0.128993068658773, 1.128993068658773),
    )


def _softplus(module: Any) -> Activation:
    beta, threshold = float(module.beta), float(module.threshold)

    def straight(z: Tensor) -> Tensor:  # beyond the threshold PyTorch goes on along the line z
        return beta * z > threshold

    return Activation(
        "softplus",
        lambda z: functional.softplus(z, beta, threshold),
        lambda z: torch.where(straight(z), 1.0, torch.sigmoid(beta * z)),
        lambda z: torch.where(straight(z), 0.0, beta * slopes.sigmoid_slope(beta * z)),
        (0.0, 1.0),
    )


def _elu(module: Any) -> Activation:
    alpha = float(module.alpha)
    return Activation(
        "elu",
        lambda z: functional.elu(z, alpha),
        slopes.exponential_slope(alpha, 1.0),
        slopes.exponential_second(alpha, 1.0),
        (min(alpha, 0.0), max(alpha, 1.0)),
        () if alpha == 1 else (0.0,),
    )


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805  # Klambauer et al. (2017)
_SELU = Activation(
    "selu",
    functional.selu,
    slopes.exponential_slope(_SELU_SCALE * _SELU_ALPHA, 1.0, above=_SELU_SCALE),
    slopes.exponential_second(_SELU_SCALE * _SELU_ALPHA, 1.0),
    (0.0, _SELU_SCALE * _SELU_ALPHA),
    (0.0,),
)


def _celu(module: Any) -> Activation | None:
    alpha = float(module.alpha)
    if alpha < 0:
        return None  # its slope e^(z/α) has no bound below zero
    return Activation(
        "celu",
        lambda z: functional.celu(z, alpha),
        slopes.exponential_slope(1.0, alpha),
        slopes.exponential_second(1 / alpha, alpha),
        (0.0, 1.0),
    )


def _always(known: Activation) -> Callable[[nn.Module], Activation | None]:
    return lambda _module: known


_READERS: dict[type[nn.Module], Callable[[nn.Module], Activation | None]] = {
    nn.Identity: _always(LINEAR),
    nn.ReLU: _always(_RELU),
    nn.LeakyReLU: _leaky_relu,
    nn.ReLU6: _hard_tanh,
    nn.Hardtanh: _hard_tanh,
    nn.Softshrink: _soft_shrink,
    nn.Tanh: _always(_TANH),
    nn.GELU: _gelu,
    nn.Sigmoid: _always(_SIGMOID),
    nn.Softplus: _softplus,
    nn.ELU: _elu,
    nn.SELU: _always(_SELU),
    nn.CELU: _celu,
    nn.SiLU: _always(_SILU),
    nn.Mish: _always(_MISH),
    nn.Softsign: _always(_SOFTSIGN),
    nn.LogSigmoid: _always(_LOG_SIGMOID),
    nn.Tanhshrink: _always(_TANH_SHRINK),
    nn.Hardsigmoid: _always(_HARD_SIGMOID),
    nn.Hardswish: _always(_HARD_SWISH),
}

ACTIVATIONS: dict[str, type[nn.Module]] = {
    read(kind()).name: kind  # type: ignore[union-attr]
    for kind, read in _READERS.items()
}
"""Name → the module of that activation, which is made without arguments: leaky ReLU has slope 0.01, ELU alpha 1."""
