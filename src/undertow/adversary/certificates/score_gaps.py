"""Lower bounds of s_y − s_t over balls, and the radii that they prove."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.certificates.bracket import Reach
from undertow.adversary.certificates.lower_bounds import LowerBounds

__all__ = ["ScoreGaps", "difference_rows", "joined_gaps"]


def difference_rows(y: Tensor, classes: int) -> Tensor:
    """e_y − e_t for every t: (B, k, k)."""
    eye = torch.eye(classes, dtype=torch.float64, device=y.device)
    return eye[y].unsqueeze(1) - eye


@dataclass(frozen=True, eq=False)
class ScoreGaps:
    """s_y − s_t is at least ``lower`` on the ball, and positive within ``radii`` of its centre: (B, k), +inf at t = y.

    ``would`` is how far a box lets these bounds reach, if they held beyond the ball; without one the same as ``radii``.
    """

    lower: Tensor
    radii: Tensor
    would: Tensor

    @staticmethod
    def of(found: LowerBounds, labels: Tensor, eps: Tensor, norm: float) -> ScoreGaps:
        """From bounds of the rows of `difference_rows`."""
        own = labels.unsqueeze(1)
        return ScoreGaps(*(part.scatter(1, own, math.inf) for part in _parts(found, eps, norm)))

    def taken(self, index: Tensor) -> ScoreGaps:
        """Those of these samples."""
        return ScoreGaps(*(part[index] for part in vars(self).values()))

    def better(self, other: ScoreGaps) -> ScoreGaps:
        """Of two proofs about the same balls the better one, difference by difference."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return ScoreGaps(*(torch.maximum(one, two) for one, two in pairs))

    def with_samples(self, index: Tensor, own: ScoreGaps) -> ScoreGaps:
        """The same with other bounds of these samples."""
        pairs = zip(vars(self).values(), vars(own).values(), strict=True)
        return ScoreGaps(*(part.index_put((index,), new) for part, new in pairs))

    def with_pairs(
        self, samples: Tensor, targets: Tensor, found: LowerBounds, eps: Tensor, norm: float
    ) -> ScoreGaps:
        """The same with better bounds (P, 1) of the differences of these samples to these classes, where they are."""
        own = _parts(found, eps, norm)
        mine = (part[samples, targets] for part in vars(self).values())
        new = [torch.maximum(old, one.squeeze(1)) for old, one in zip(mine, own, strict=True)]
        pairs = zip(vars(self).values(), new, strict=True)
        return ScoreGaps(*(part.index_put((samples, targets), one) for part, one in pairs))

    def reach(self, eps: Tensor) -> Reach:
        """What is proved of all differences together on the balls of radius ``eps``."""
        proved = torch.minimum(eps, self.radii.amin(1)).clamp(min=0)
        return Reach(torch.where(self.lower.amin(1) > 0, eps, proved), self.would.amin(1))


def _parts(found: LowerBounds, eps: Tensor, norm: float) -> tuple[Tensor, Tensor, Tensor]:
    """``lower``, ``radii`` and ``would`` of bounds on balls of radius ``eps``."""
    radii = found.radii(norm)
    room = torch.where(found.step < 0, -found.step, 1.0)
    scaled = eps.unsqueeze(1) * (found.lower - found.step) / room
    would = torch.where(found.step < 0, torch.nan_to_num(scaled, nan=-math.inf), radii)
    return found.lower, radii, torch.maximum(radii, would)


def joined_gaps(parts: Sequence[ScoreGaps]) -> ScoreGaps:
    """Those of several batches of samples, one after the other."""
    return ScoreGaps(
        *(torch.cat(each) for each in zip(*(vars(part).values() for part in parts), strict=True))
    )
