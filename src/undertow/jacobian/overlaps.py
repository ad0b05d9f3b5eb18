"""How far the vectors of a Lanczos run have drifted from orthogonal: known from its coefficients alone."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["Overlaps"]

_LAUNCH = (
    2**25
)  # numbers in a vector of all samples below which a GPU orthogonalises before it could have asked


class Overlaps:
    """Estimates of ⟨v_j, v_i⟩ for the newest vectors of every sample, by Simon's recurrence (1984).

    Rounding enters a Lanczos run with every step and is amplified by the recurrence itself: the overlaps of v_{j+1}
    follow from those of v_j and v_{j−1} as the vectors do. While they stay below the square root of rounding, the
    tridiagonal matrix is exact to rounding, as if the basis had been orthogonalised in full. So the basis itself,
    by far the larger object, need only be touched where this says so; and then for two vectors in a row, because the
    recurrence hands on what either of them has lost.
    """

    def __init__(self, count: int, dimension: int, *, dtype: torch.dtype, device: torch.device) -> None:
        self._rounding = torch.finfo(dtype).eps
        self._at_once = _LAUNCH // dimension if device.type == "cuda" else 0
        self._near = self._rounding * math.sqrt(dimension)  # between neighbours, and after orthogonalising
        self._limit = math.sqrt(self._rounding)
        self._newest = torch.ones(count, 1, dtype=torch.float64, device=device)  # ⟨v_0, v_0⟩
        self._before = self._newest[:, :0]
        self._again = False

    def drifted(
        self, diagonal: Tensor, off: Tensor, length: Tensor, largest: Tensor, *, asked: Tensor
    ) -> bool:
        """Whether v_{j+1} must be orthogonalised, given a_0 … a_j, b_0 … b_{j−1} and the length b_j it has now.

        Asked of the samples in ``asked`` alone: of others nothing more is wanted. Call once for every step.
        """
        if len(length) < self._at_once:
            return True
        newest, before = self._newest, self._before
        step = newest.shape[1] - 1
        length = length.double().clamp_min(1e-300)
        noise = self._rounding * largest.double() / length
        coming = (diagonal[:, :step] - diagonal[:, step : step + 1]) * newest[:, :step]
        if step > 0:
            coming += off[:, :step] * newest[:, 1:]
            coming[:, 1:] += off[:, : step - 1] * newest[:, : step - 1]
            coming -= off[:, step - 1 : step] * before[:, :step]
            coming /= length[:, None]
            coming += torch.copysign(2 * noise[:, None], coming)
        neighbour = self._near * largest.double() / length
        self._before = newest
        self._newest = torch.cat([coming, neighbour[:, None], torch.ones_like(neighbour)[:, None]], dim=1)
        worst = self._newest[asked, :-1].abs().amax() if len(asked) else neighbour.new_zeros(())
        drifted = self._again or not bool(worst <= self._limit)  # NaN has drifted, too
        if drifted:
            self._newest[:, :-1] = self._near
            self._again = not self._again
        return drifted

    def take(self, index: Tensor) -> None:
        """Go on with these samples alone."""
        self._newest, self._before = self._newest[index], self._before[index]
