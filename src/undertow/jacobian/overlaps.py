"""How far the vectors of a Lanczos run have drifted from orthogonal: known from its coefficients alone."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["Overlaps"]

_LAUNCH = 2**25
"""Numbers in a vector of all samples below which a GPU orthogonalises sooner than it could have asked."""


class Overlaps:
    """Bounds on |⟨v_j, v_i⟩|, i < j, for the newest vectors of every sample, by Simon's recurrence (1984).

    Rounding enters a Lanczos run with every step and is amplified by the recurrence itself: the overlaps of v_{j+1}
    follow from those of v_j and v_{j−1} as the vectors do. While they stay below the square root of rounding, the
    tridiagonal matrix is exact to rounding, as if the basis had been orthogonalised in full. So the basis itself,
    by far the larger object, need only be touched where this says so; and then for two vectors in a row, because the
    recurrence hands on what either of them has lost.

    Simon follows one possible course of the overlaps, with signs. Here every term is taken by its size: a course whose
    terms happen to cancel would miss what the vectors themselves lose, and a basis that is lost unnoticed gives norms
    that are too large.
    """

    def __init__(self, count: int, dimension: int, *, dtype: torch.dtype, device: torch.device) -> None:
        self._rounding = torch.finfo(dtype).eps
        self._at_once = _LAUNCH // dimension if device.type == "cuda" else 0
        self._near = self._rounding * math.sqrt(dimension)  # between neighbours, and after orthogonalising
        self._limit = math.sqrt(self._rounding)
        self._newest = self._before = torch.zeros(count, 0, dtype=torch.float64, device=device)
        self._loosest = self._near  # bounds the overlap of any two vectors so far
        self._again = False

    def passes(self, diagonal: Tensor, off: Tensor, length: Tensor, largest: Tensor, *, asked: Tensor) -> int:
        """How often to orthogonalise v_{j+1}, given a_0 … a_j, b_0 … b_{j−1} and the length b_j it has now.

        Not at all, once, or twice: a pass leaves of an overlap as large a share as the basis itself overlaps. Asked of
        the samples in ``asked`` alone: of others nothing more is wanted. Call once for every step.
        """
        if len(length) < self._at_once:
            return self._until_near(1.0)
        newest, before = self._newest, self._before
        step = newest.shape[1]
        length = length.double().clamp_min(1e-300)[:, None]
        noise = self._rounding * largest.double()[:, None] / length
        coming = (diagonal[:, :step] - diagonal[:, step : step + 1]).abs() * newest
        if step > 1:  # the terms of ⟨v_j, v_j⟩ and ⟨v_{j−1}, v_{j−1}⟩ cancel
            inner = off[:, : step - 1]
            coming[:, :-1] += inner * newest[:, 1:] + off[:, step - 1 : step] * before
            coming[:, 1:] += inner * newest[:, :-1]
        self._before = newest
        self._newest = torch.cat([coming / length + 2 * noise, self._near / self._rounding * noise], dim=1)
        worst = float(self._newest[asked].amax()) if len(asked) else 0.0
        if worst <= self._limit and not self._again:
            self._loosest = max(self._loosest, worst)
            return 0
        self._newest.fill_(self._near)
        self._again = not self._again
        return self._until_near(worst)

    def _until_near(self, overlap: float) -> int:
        return 1 if min(overlap, 1.0) * self._loosest <= self._near else 2

    def take(self, index: Tensor) -> None:
        """Go on with these samples alone."""
        self._newest, self._before = self._newest[index], self._before[index]
