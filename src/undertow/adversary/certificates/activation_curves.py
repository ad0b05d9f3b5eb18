"""Activations as curves that are convex, concave or straight between known points: what linear bounds need of them.

Between two neighbouring ``breaks`` the slope of a curve is monotone. That is all that `relaxations` uses: the smallest
value of f(h) − a·h on an interval is at an end, at a break, or where f'(h) = a on a convex piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from undertow.adversary.certificates.share_curves import exp_of_scores, share
from undertow.adversary.certificates.straight_curves import Curve, Function, clamped, leaky, number, straight

__all__ = ["Curve", "Function", "curve_of"]

_EPS = torch.finfo(torch.float64).eps


def _furthest(low: Tensor, high: Tensor) -> Tensor:
    return torch.maximum(low.abs(), high.abs())


def _smooth(
    value: Function,
    slope: Function,
    breaks: tuple[float, ...],
    bends: tuple[int, ...],
    steepest: float,
    *,
    offset: float = 0.0,
    error: Callable[[Tensor, Tensor], Tensor] | None = None,
    root: Function | None = None,
    domain: float = -math.inf,
    slope_error: float = 64 * _EPS,
) -> Curve:
    return Curve(
        value=value,
        slope=slope,
        breaks=breaks,
        bends=bends,
        # special functions are good to a few units in the last place of their result or their argument
        error=error or (lambda low, high: 16 * _EPS * (_furthest(low, high) * steepest + offset)),
        root=root,
        domain=domain,
        slope_error=slope_error,
    )


def _gelu_slope(h: Tensor) -> Tensor:
    return 0.5 * torch.erfc(-h / math.sqrt(2)) + h * torch.exp(-h * h / 2) / math.sqrt(2 * math.pi)


def _gelu_tanh_slope(h: Tensor) -> Tensor:
    c, k = math.sqrt(2 / math.pi), 0.044715
    # beyond ±15 the curve is 0 or h to the last bit, and h³ must not overflow
    inner = h.clamp(-15, 15)
    bow = torch.tanh(c * (inner + k * inner**3))
    rest = 0.5 * inner * (1 - bow**2) * c * (1 + 3 * k * inner**2)
    return 0.5 * (1 + bow) + rest


def _silu_slope(h: Tensor) -> Tensor:
    s = torch.sigmoid(h)
    return s + torch.where(h.abs() < 700, h, 0.0) * s * torch.sigmoid(-h)


_GELU_TANH_BEND = (
    1.4185040087908283  # where the tanh approximation of GELU stops being convex, on either side
)
_SILU_BEND = 2.3993572805154675  # h·tanh(h/2) = 2


_NO_JUMP = 15.0  # thresholds of softplus from which on its jump is below 1e-6


def _softplus(beta: float, threshold: float) -> Curve:
    # torch gives h itself where β·h > threshold: too little by log1p(exp(−threshold))/β
    missing = math.log1p(math.exp(-threshold)) / beta

    def error(low: Tensor, high: Tensor) -> Tensor:
        beyond = torch.where(high * beta > threshold, missing, 0.0)
        return 16 * _EPS * (_furthest(low, high) + 1 / beta) + beyond

    return _smooth(
        lambda h: torch.logaddexp(beta * h, torch.zeros_like(h)) / beta,
        lambda h: torch.sigmoid(beta * h),
        (),
        (1,),
        1.0,
        offset=math.log(2) / beta,
        error=error,
        slope_error=64 * _EPS + 1 / (1 + math.exp(threshold)),
    )


def _elu(alpha: float, scale: float, input_scale: float) -> Curve:
    """scale·h for h > 0, scale·α·(exp(input_scale·h) − 1) below."""

    def slope(h: Tensor) -> Tensor:
        left = scale * alpha * input_scale * torch.exp(input_scale * h.clamp(max=0))
        return torch.where(h > 0, scale, left)

    def value(h: Tensor) -> Tensor:
        return torch.where(h > 0, scale * h, scale * alpha * torch.expm1(input_scale * h.clamp(max=0)))

    left_end = scale * alpha * input_scale
    steepest, ends = max(abs(scale), abs(left_end)), ((number(left_end), number(scale)),)
    return Curve(
        value=value,
        slope=slope,
        breaks=(0.0,),
        bends=(1 if scale * alpha > 0 else -1, 0),
        error=lambda low, high: 16 * _EPS * _furthest(low, high) * steepest,
        ends=ends,
    )


def _hardswish() -> Curve:
    """h·clamp(h + 3, 0, 6)/6: straight, a parabola on [−3, 3], straight."""
    half = number(0.5)
    return Curve(
        value=lambda h: h * (h + 3).clamp(0, 6) / 6,
        slope=lambda h: torch.where(h > 3, 1.0, torch.where(h < -3, 0.0, (2 * h + 3) / 6)),
        breaks=(-3.0, 3.0),
        bends=(0, 1, 0),
        error=lambda low, high: 16 * _EPS * _furthest(low, high),
        ends=((0 * half, -half), (3 * half, 2 * half)),
    )


def curve_of(name: str, arguments: tuple[Any, ...] = (), slopes: Tensor | None = None) -> Curve | None:
    """The curve of an ATen operation by name, with its numbers; ``slopes`` are a pReLU's. None where it is not known.

    >>> h = torch.tensor([-1.0, 2.0], dtype=torch.float64)
    >>> curve_of("leaky_relu", (0.5,)).value(h)
    tensor([-0.5000,  2.0000], dtype=torch.float64)
    """
    made = _FIXED.get(name)
    if made is not None:
        return made()
    if name == "leaky_relu":
        return leaky(number(arguments[0] if arguments else 0.01))
    if name == "_prelu_kernel" and slopes is not None:
        return leaky(slopes)
    if name in ("hardtanh", "clamp"):
        return clamped(*arguments) if len(arguments) == 2 else clamped(-1.0, 1.0)
    if name == "gelu":
        return _gelu_tanh() if "tanh" in map(str, arguments) else _gelu()
    if name == "softplus":
        beta, threshold = (*arguments, 1.0, 20.0)[:2] if len(arguments) != 1 else (arguments[0], 20.0)
        # at a low threshold torch's function jumps, and has no slope there
        return _softplus(beta, threshold) if threshold >= _NO_JUMP and beta > 0 else None
    if name == "elu":
        return _elu(*(*arguments, 1.0, 1.0, 1.0)[:3]) if arguments else _elu(1.0, 1.0, 1.0)
    if name == "celu":
        return _elu(arguments[0], 1.0, 1 / arguments[0]) if arguments else _elu(1.0, 1.0, 1.0)
    return None


def _gelu() -> Curve:
    return _smooth(
        lambda h: 0.5 * h * torch.erfc(-h / math.sqrt(2)),
        _gelu_slope,
        (-math.sqrt(2), math.sqrt(2)),
        (-1, 1, -1),
        1.13,
    )


def _gelu_tanh() -> Curve:
    return _smooth(
        lambda h: torch.nn.functional.gelu(h, approximate="tanh"),
        _gelu_tanh_slope,
        (-_GELU_TANH_BEND, _GELU_TANH_BEND),
        (-1, 1, -1),
        1.14,
    )


_BELL = 2 / math.sqrt(math.pi)
_FIXED: dict[str, Callable[[], Curve]] = {
    "relu": lambda: leaky(number(0.0)),
    "relu6": lambda: clamped(0.0, 6.0),
    "abs": lambda: leaky(number(-1.0)),
    "tanh": lambda: _smooth(
        torch.tanh, lambda h: 1 / torch.cosh(h.clamp(-300, 300)) ** 2, (0.0,), (1, -1), 1.0
    ),
    "sigmoid": lambda: _smooth(
        torch.sigmoid, lambda h: torch.sigmoid(h) * torch.sigmoid(-h), (0.0,), (1, -1), 0.25, offset=1.0
    ),
    "silu": lambda: _smooth(
        lambda h: h * torch.sigmoid(h), _silu_slope, (-_SILU_BEND, _SILU_BEND), (-1, 1, -1), 1.1
    ),
    "selu": lambda: _elu(1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0),
    "hardswish": _hardswish,
    "hardsigmoid": lambda: straight(
        [number(0.0), number(1 / 6), number(0.0)], (-3.0, 3.0), [number(0.0), number(1.0)]
    ),
    # of softmax and LayerNorm
    "exp": lambda: _smooth(
        torch.exp, torch.exp, (), (1,), 1.0, error=lambda _, high: 16 * _EPS * high.exp(), root=torch.log
    ),
    "exp of scores": exp_of_scores,
    "share": share,
    "reciprocal": lambda: _smooth(
        torch.reciprocal,
        lambda h: -1 / h**2,
        (),
        (1,),
        1.0,
        error=lambda low, _: 16 * _EPS / low,
        root=lambda a: (-1 / a.clamp(max=-1e-300)).sqrt(),
        domain=0.0,
    ),
    "rsqrt": lambda: _smooth(
        torch.rsqrt,
        lambda h: -0.5 * h**-1.5,
        (),
        (1,),
        1.0,
        error=lambda low, _: 16 * _EPS * low.rsqrt(),
        root=lambda a: (-2 * a.clamp(max=-1e-200)) ** (-2 / 3),
        domain=0.0,
    ),
    "sqrt": lambda: _smooth(
        torch.sqrt,
        lambda h: 0.5 * torch.rsqrt(h),
        (),
        (-1,),
        1.0,
        error=lambda _, high: 16 * _EPS * high.sqrt(),
        root=lambda a: (0.5 / a.clamp(max=-1e-150)) ** 2,
        domain=0.0,
    ),
    "log": lambda: _smooth(
        torch.log,
        torch.reciprocal,
        (),
        (-1,),
        1.0,
        error=lambda low, high: 16 * _EPS * (1 + _furthest(low.log(), high.log())),
        root=lambda a: -1 / a.clamp(max=-1e-300),
        domain=0.0,
    ),
    "cube": lambda: _smooth(
        lambda h: h**3,
        lambda h: 3 * h * h,
        (0.0,),
        (-1, 1),
        1.0,
        error=lambda low, high: 16 * _EPS * _furthest(low, high) ** 3,
        root=lambda a: a.sign() * (a.abs() / 3).sqrt(),
    ),
    "square": lambda: _smooth(
        torch.square,
        lambda h: 2 * h,
        (),
        (1,),
        1.0,
        error=lambda low, high: 16 * _EPS * _furthest(low, high) ** 2,
        root=lambda a: a / 2,
    ),
    "erf": lambda: _smooth(torch.erf, lambda h: _BELL * torch.exp(-h * h), (0.0,), (1, -1), 1.13),
}
