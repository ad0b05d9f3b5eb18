"""Slopes that ascents ended with, for the next ball around the same samples."""

from __future__ import annotations

import math

from torch import Tensor

from undertow.adversary.certificates.slope_ascent import ChosenSlopes

__all__ = ["SlopeMemory"]


class SlopeMemory:
    """Of every sample and class the slopes and multipliers chosen last; NaN where there are none yet.

    They prove nothing by themselves: an ascent that begins with them ends no worse than they are on its ball.
    """

    def __init__(self, samples: int, classes: int) -> None:
        self.shape = samples, classes
        self._slopes: dict[int, Tensor] = {}
        self._levels: dict[int, Tensor] = {}

    def recalled(self, samples: Tensor, targets: Tensor) -> ChosenSlopes | None:
        """Those of these pairs (P, 1, …); None before any is known."""
        if not self._slopes:
            return None
        return ChosenSlopes(
            {at: slope[samples, targets].unsqueeze(1) for at, slope in self._slopes.items()},
            {at: level[samples, targets].unsqueeze(1) for at, level in self._levels.items()},
        )

    def keep(self, samples: Tensor, targets: Tensor, chosen: ChosenSlopes | None) -> None:
        """Remember what was chosen for these pairs."""
        if chosen is None:
            return
        for kept, parts in ((self._slopes, chosen.slopes), (self._levels, chosen.levels)):
            for at, part in parts.items():
                if at not in kept:
                    kept[at] = part.new_full((*self.shape, *part.shape[2:]), math.nan)
                kept[at][samples, targets] = part.squeeze(1)
