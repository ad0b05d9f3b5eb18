"""When a product of matrices learns a singular value: one after the other, from a small start.

Gradient flow on a product of N matrices whose start is balanced moves the singular values of the product as (Arora,
Cohen, Hu & Luo 2019, Theorem 3)

    dσ_k/dt = N (σ_k²)^{1 − 1/N} ⟨−∇ℓ, u_k v_kᵀ⟩ ,

so that small ones wait. Where the directions are those of the target, and the entries seen stand for all of it, the
last factor is s_k − σ_k up to a constant, a unit of time: every singular value follows an equation of its own,

    dσ/dt = N σ^{2 − 2/N} (s − σ) .

With N = 2 it has half of s at t = log((s − σ_0)/σ_0)/(2s); for deeper ones the time grows with a power of 1/σ_0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from undertow.core.errors import InputError

__all__ = ["growth_of_singular_value", "half_time"]

_POINTS = 4001
_REST = 1e-4  # of s is where the curve ends


def growth_of_singular_value(
    end: float, *, start: float, depth: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times and values of σ from ``start`` to nearly ``end``, by the trapezium rule in log(σ/(s − σ)).

    >>> times, values = growth_of_singular_value(1.0, start=0.01, depth=2)
    >>> round(float(np.interp(0.5, values, times)), 4), round(float(np.log(99) / 2), 4)
    (2.2976, 2.2976)
    """
    if not 0 < start < end * (1 - _REST) or depth < 2:
        raise InputError(
            f"start = {start:g} must lie between 0 and the end, {end:g}, and depth = {depth} be 2 or more."
        )
    first, last = np.log(start / (end - start)), np.log((1 - _REST) / _REST)
    odds = np.linspace(first, last, _POINTS)
    values = end / (1 + np.exp(-odds))
    # dσ = σ (s − σ)/s d(odds), so dt = σ^{2/N − 1} / (N s) d(odds)
    pace = values ** (2 / depth - 1) / (depth * end)
    times = np.concatenate([[0.0], np.cumsum((pace[1:] + pace[:-1]) / 2 * np.diff(odds))])
    return times, values


def half_time(end: float, *, start: float, depth: int) -> float:
    """When σ has half of its end.

    >>> half_time(2.0, start=1e-3, depth=3) < half_time(1.0, start=1e-3, depth=3)
    True
    """
    times, values = growth_of_singular_value(end, start=start, depth=depth)
    return float(np.interp(end / 2, values, times))
