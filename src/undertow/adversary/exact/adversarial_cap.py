"""Where in a ball adversarial perturbations can be: what linear bounds say to an exact solver before it branches.

Linear bounds (CROWN) of the gap give g(δ) ≥ A·δ + c on the ball ‖δ‖ ≤ R, so that g(δ) ≤ 0 needs A·δ ≤ −c: the cap that
this halfspace cuts off, nothing at all where c > R‖A‖_dual, and little where the certified radius c/‖A‖ is nearly R. On
the cap a neuron's h = w·δ + h₀ is at least, by weak duality and for every μ ≥ 0,

    h₀ + min_{‖δ‖ ≤ R} w·δ + μ(A·δ + c) = h₀ + μc − R‖w + μA‖_dual,

and with narrower limits the bounds of the gap are better in turn. Solvers may use limits on the cap for neurons with
head_j < 0. Fixing the piece of such a neuron, or bounding it by a chord that holds on the cap, takes no adversarial
point away, as all are in the cap. Nor does it add any: a piece is at least the neuron's own term everywhere, and a
chord wherever it is no bound.
"""

from __future__ import annotations

import math

import numpy as np

from undertow.adversary.exact.two_layer_gaps import Array, Gap, dual_norms

__all__ = ["cap_limits", "chord_line"]

_ROUNDS = 3
_SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.5, 2.5, 5.0)  # multipliers tried, in units of ‖w‖/‖A‖
_ROUNDED = 1e-12


def cap_limits(gap: Gap, radius: float, norm: float) -> tuple[Array, Array] | None:
    """Lower and upper limits of every h_j where the gap can be ≤ 0 in the ball; None where it cannot.

    >>> one = np.array([[1.0]])
    >>> gap = Gap(1.0, np.zeros(1), np.zeros(1), one, np.array([-1.0]), 0.0)      # 1 − max(δ, 0)
    >>> [side.round(6).tolist() for side in cap_limits(gap, 1.25, 2.0)]
    [[1.0], [1.25]]
    >>> cap_limits(gap, 0.4, 2.0) is None
    True
    """
    lower, upper = gap.limits(radius, norm)
    for _ in range(_ROUNDS if len(gap.head) else 1):
        normal, constant = _line(gap, lower, upper)
        length = float(dual_norms(normal, norm))
        # rounding on the side of more: a cap a little too large is still one
        constant -= _ROUNDED * (
            abs(gap.level) + float(np.abs(gap.head) @ np.maximum(np.abs(lower), np.abs(upper)))
        )
        if constant > radius * length:
            return None
        if constant <= 0 or length == 0:
            break
        least = _least(gap.weight, normal, constant, radius, norm)
        most = -_least(-gap.weight, normal, constant, radius, norm)
        slack = _ROUNDED * (np.abs(gap.hidden) + radius)
        lower = np.maximum(lower, gap.hidden + least - slack)
        upper = np.minimum(upper, gap.hidden + most + slack)
    return lower, np.maximum(upper, lower)


def _line(gap: Gap, lower: Array, upper: Array) -> tuple[Array, float]:
    """A and c: chords for concave terms, the piece at the sample for convex ones."""
    chord, intercept = chord_line(lower, upper, gap.slope)
    concave = gap.head < 0
    piece = np.where(
        lower >= 0, 1.0, np.where(upper <= 0, gap.slope, np.where(gap.hidden > 0, 1.0, gap.slope))
    )
    slopes = np.where(concave, chord, piece)
    offsets = np.where(concave, intercept, 0.0)
    normal = gap.normal + (gap.head * slopes) @ gap.weight
    lines = gap.head * (slopes * gap.hidden + offsets - gap.act(gap.hidden))
    return normal, math.fsum([gap.level, *lines])


def _least(weight: Array, normal: Array, constant: float, radius: float, norm: float) -> Array:
    """The smallest w_j·δ on the cap, from below."""
    plain = -radius * dual_norms(weight, norm)
    if norm == 2:
        length = float(np.linalg.norm(normal))
        depth = min(constant / length, radius)
        along = weight @ (normal / length)
        across = np.sqrt(np.maximum((weight**2).sum(1) - along**2, 0.0))
        rest = math.sqrt(max(radius**2 - depth**2, 1e-300))
        tried = (np.maximum(depth * across / rest - along, 0.0) / length)[None]
    else:
        unit = dual_norms(weight, norm) / float(dual_norms(normal, norm))
        tried = np.array(_SHARES)[:, None] * unit
    for level in tried:
        level = np.minimum(level, 1e12)
        value = level * constant - radius * dual_norms(weight + level[:, None] * normal, norm)
        plain = np.maximum(plain, value - _ROUNDED * level * constant)
    return np.asarray(plain)


def chord_line(lower: Array, upper: Array, slope: float) -> tuple[Array, Array]:
    """Slope and intercept of the line through (l, act(l)) and (u, act(u))."""
    width = np.maximum(upper - lower, 1e-300)
    chord = np.where(lower >= 0, 1.0, np.where(upper <= 0, slope, (upper - slope * lower) / width))
    crossing = (lower < 0) & (upper > 0)
    return chord, np.where(crossing, -lower * (chord - slope), 0.0)
