"""The radii that robustness is asked about, and the range of valid inputs, as users give them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

from undertow.core.errors import InputError

__all__ = ["Radii", "check_bounds", "check_radii", "several_radii"]

Radii = float | Sequence[float]


def several_radii(eps: Radii) -> TypeGuard[Sequence[float]]:
    """Whether ε is several numbers; arrays and tensors without axes are one."""
    return getattr(eps, "ndim", 0 if isinstance(eps, int | float) else 1) > 0


def check_radii(eps: Radii, *, name: str = "eps") -> tuple[float, ...]:
    """One number or several as several, all ≥ 0 and finite; a sentence for anything else.

    >>> check_radii(1), check_radii([0, 0.5])
    ((1.0,), (0.0, 0.5))
    """
    try:
        radii = tuple(float(radius) for radius in eps) if several_radii(eps) else (float(eps),)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        radii = ()
    if not radii or not all(0 <= radius < math.inf for radius in radii):
        raise InputError(f"{name}={eps!r} must be one number ≥ 0, or several, in the units of the raw inputs")
    return radii


def check_bounds(bounds: Any) -> tuple[float, float]:
    """The smallest and the largest valid input, the same for every entry.

    >>> check_bounds([0, 1])
    (0.0, 1.0)
    """
    try:
        lowest, highest = (float(side) for side in bounds)
    except (TypeError, ValueError, RuntimeError):
        lowest = highest = math.nan
    if not lowest < highest:
        raise InputError(
            f"bounds={bounds!r} must be (smallest, largest), two numbers that are the same for every entry of x"
        )
    return lowest, highest
