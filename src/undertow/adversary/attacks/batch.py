"""What every attack is given and gives back: samples along the member axis, and what was found of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.scorer import margins_of

__all__ = ["Batch", "Found", "all_columns", "beaten", "remaining", "take"]


@dataclass
class Batch:
    """The samples an attack works on, along the member axis; ``keep`` drops those already broken.

    Every entry has shape (M, P, …): ``x`` flat inputs, ``start`` where to begin, ``y`` labels, ``target``
    classes, ``eps`` radii, ``scale`` clean margins; ``place`` numbers the samples for random draws of their own.
    """

    x: Tensor
    start: Tensor
    y: Tensor
    target: Tensor
    eps: Tensor
    scale: Tensor
    place: Tensor | None = None

    def keep(self, columns: Tensor) -> Batch:
        kept = {name: take(value, columns) for name, value in vars(self).items() if value is not None}
        return Batch(**kept)


@dataclass
class Found:
    """``x`` (M, P, d): an adversarial example where ``broken`` (M, P), elsewhere the best point met."""

    x: Tensor
    broken: Tensor

    @classmethod
    def nothing(cls, batch: Batch) -> Found:
        """Before the search: where it starts."""
        return cls(batch.start.clone(), torch.zeros_like(batch.y, dtype=torch.bool))

    def record(self, columns: Tensor, x: Tensor, hit: Tensor, *, first: bool = True) -> None:
        """Store new adversarial examples at their place in the whole batch; with ``first`` the first one stays."""
        if not bool(hit.any()):
            return
        fresh = hit & ~self.broken.gather(1, columns) if first else hit
        members, positions = fresh.nonzero(as_tuple=True)
        places = columns[members, positions]
        self.x[members, places] = x[members, positions]
        self.broken[members, places] = True

    def fill(self, columns: Tensor, best: Tensor) -> None:
        """The best point met, where nothing was broken."""
        members, positions = (~self.broken.gather(1, columns)).nonzero(as_tuple=True)
        self.x[members, columns[members, positions]] = best[members, positions]


def beaten(scores: Tensor, y: Tensor) -> Tensor:
    """Whether the margin is negative beyond rounding, or all scores are exactly 0.

    The slack keeps an example adversarial when it is evaluated again in a batch of another size, where
    matrix products round differently. Where every ReLU is off nothing is rounded: a tie there is an error, and
    has to be seen as one, for behind it lies a flat region in which gradients lead nowhere.
    """
    slack = 8 * torch.finfo(scores.dtype).eps * scores.abs().amax(-1)
    return margins_of(scores, y) <= -slack


def take(value: Tensor, columns: Tensor) -> Tensor:
    """value[m, columns[m, p]]: (M, P, …) gathered along P."""
    index = columns.reshape(*columns.shape, *[1] * (value.ndim - 2)).expand(*columns.shape, *value.shape[2:])
    return value.gather(1, index)


def all_columns(batch: Batch) -> Tensor:
    """The places (M, P) of the samples in the whole batch, before any leaves."""
    return torch.arange(batch.y.shape[1], device=batch.x.device).expand_as(batch.y)


def remaining(broken: Tensor, columns: Tensor) -> Tensor | None:
    """Positions, within ``columns``, of samples still standing, padded to one length for all members.

    None when a smaller batch would not be worth the copying.
    """
    standing = ~broken.gather(1, columns)
    most = int(standing.sum(1).max())
    if most > 0.9 * columns.shape[1]:
        return None
    return torch.sort(standing.byte(), dim=1, descending=True, stable=True).indices[:, :most]
