"""The largest radius that can be proved, for many samples at once, from proofs on balls of chosen radii."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Reach", "largest_radius"]

_GROWTH, _ENDLESS = 4.0, 1e36  # times the first guess: in no unit that anyone uses


@dataclass(frozen=True, eq=False)
class Reach:
    """What bounds on balls of radius R say: the radius (B,) that they prove, and how far they would reach.

    With rows·scores ≥ A·x' + c on the ball, ``would`` is (A·x + c)/‖A‖, which may be more than R or less than 0; what
    is ``proved`` is min(R, would), or R itself where a box is part of the proof.
    """

    proved: Tensor
    would: Tensor

    @staticmethod
    def of(radius: Tensor, would: Tensor) -> Reach:
        """Where there is no box."""
        return Reach(torch.minimum(radius, would).clamp(min=0), would)


def largest_radius(
    reach: Callable[[Tensor, Tensor], Reach], *, guess: Tensor, rtol: float, steps: int = 40
) -> Tensor:
    """The largest radius (B,) proved on some ball, within ``rtol`` of where ``reach`` ends; inf without an end.

    ``reach(radius, index)`` is asked for balls of the samples ``index``; ``guess`` (B,) is where to begin, and samples
    whose guess is 0 are left out. On a larger ball bounds are weaker, so r(R) = ``would`` falls with R and meets it
    once: the secant method, within the bracket known. Whatever r does in between, what is
    returned was proved.

    >>> falling = lambda radius, index: Reach.of(radius, 2 / radius)
    >>> one = torch.ones(1, dtype=torch.float64)
    >>> largest_radius(falling, guess=one, rtol=1e-12)
    tensor([1.4142], dtype=torch.float64)
    """
    low, high = torch.zeros_like(guess), torch.full_like(guess, math.inf)
    before, fell = (torch.full_like(guess, math.nan) for _ in range(2))
    slope, growth = torch.full_like(guess, -1.0), torch.full_like(guess, _GROWTH)
    trial, todo = guess.clone(), ((guess > 0) & guess.isfinite()).nonzero().squeeze(1)
    for step in range(steps):
        if len(todo) == 0:
            break
        at, start = trial[todo], guess[todo]
        found = reach(at, todo)
        low[todo] = torch.maximum(low[todo], found.proved)
        high[todo] = torch.where(found.would < at, torch.minimum(high[todo], at), high[todo])
        left, right = low[todo], high[todo]
        secant = (found.would - fell[todo]) / (at - before[todo])
        slope[todo] = torch.where(secant.isfinite(), secant.clamp(max=0), slope[todo])
        before[todo], fell[todo] = at, found.would
        further = (at + (found.would - at) / (1 - slope[todo])).clamp(max=growth[todo] * at)
        endless = found.would == math.inf  # nothing depends on the input yet
        growth[todo] = torch.where(endless, growth[todo].square(), growth[todo])
        outside = (further <= left) | (further >= right)
        # where bounds say nothing, or too little comes of them: in the middle, or far below
        lost = ~further.isfinite() | (step % 4 == 3) | (outside & (step % 2 == 1))
        least = torch.where(left > 0, left * (1 + 0.5 * rtol), right / _GROWTH)
        middle = torch.where(left > 0, (left * right).sqrt(), least)
        further = further.maximum(least).minimum(right * (1 - 0.5 * rtol))
        trial[todo] = torch.where(lost & right.isfinite(), middle, further)
        close = (found.would - at).abs() <= rtol * at
        ended = (right <= left * (1 + rtol)) | (left > start * _ENDLESS) | (right * _ENDLESS < start)
        todo = todo[~(close | ended)]
    return torch.where(low > guess * _ENDLESS, math.inf, low)
