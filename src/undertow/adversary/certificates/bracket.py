"""The largest radius at which a bound still holds, for many samples at once."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["largest_radius"]

_GROWTH, _DOUBLINGS = 4.0, 60  # 4^60 times the first guess: in no unit that anyone uses


def largest_radius(
    gap: Callable[[Tensor, Tensor], Tensor], *, level: Tensor, guess: Tensor, rtol: float, steps: int = 60
) -> Tensor:
    """A radius (B,) at which gap > 0 was seen, within ``rtol`` of one at which it was not; inf where none was.

    ``gap(radius, index)`` gives the values at the radii of the samples ``index``; ``level`` are those at radius 0 and
    ``guess`` the radii at which to begin, finite and positive wherever level > 0. Elsewhere the radius is 0.

    False position (Illinois: the end that stays is given half its weight), with a bisection every fourth step for gaps
    that jump. Whatever the gap does in between, what is returned was tried and held.

    >>> square = lambda radius, index: 2 - radius**2
    >>> one = torch.ones(1, dtype=torch.float64)
    >>> largest_radius(square, level=2 * one, guess=one, rtol=1e-12)
    tensor([1.4142], dtype=torch.float64)
    """
    low, high = torch.zeros_like(level), torch.full_like(level, math.inf)
    above, below = level.clone(), torch.full_like(level, math.nan)  # the values at both ends
    trial, open_ended = guess.clone(), (level > 0).nonzero().squeeze(1)
    for _ in range(_DOUBLINGS):
        if len(open_ended) == 0:
            break
        value = gap(trial[open_ended], open_ended)
        holds = value > 0
        up, down = open_ended[holds], open_ended[~holds]
        low[up], above[up] = trial[up], value[holds]
        high[down], below[down] = trial[down], value[~holds]
        open_ended, trial[up] = up, _GROWTH * trial[up]
    last = torch.zeros_like(level)  # which end moved last: +1 the lower, −1 the upper
    for step in range(steps):
        todo = ((level > 0) & high.isfinite() & (high - low > rtol * high)).nonzero().squeeze(1)
        if len(todo) == 0:
            break
        left, right = low[todo], high[todo]
        share = 0.5 * torch.ones_like(left)
        if step % 4 < 3:  # below may be −inf or NaN: then in the middle
            share = torch.nan_to_num(above[todo] / (above[todo] - below[todo]), nan=0.5)
        # A step shorter than the tolerance would leave the other end where it is.
        edge = 0.5 * rtol * right / (right - left)
        at = left + (right - left) * torch.minimum(torch.maximum(share, edge), 1 - edge)
        value = gap(at, todo)
        holds = value > 0
        up, down = todo[holds], todo[~holds]
        low[up], above[up] = at[holds], value[holds]
        high[down], below[down] = at[~holds], value[~holds]
        below[up] = torch.where(last[up] > 0, below[up] / 2, below[up])
        above[down] = torch.where(last[down] < 0, above[down] / 2, above[down])
        last[up], last[down] = 1.0, -1.0
    return torch.where((level > 0) & high.isinf(), math.inf, low)
