"""The loss after a try, of all samples, or of as many as show that the try cannot be kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from undertow.training.gradients import BatchGradients

__all__ = ["LossOfTry", "loss_of_try"]

_SHARE = 30  # one sample in so many is looked at first
_FEWEST = 500  # where these are fewer, all are looked at at once
_ROUNDING = 1e-3  # by how much more the log of their loss must be above what is allowed
_ROUNDINGS = (
    32  # and by so many roundings of it: a few samples' logits are rounded otherwise than in a larger pass
)

EachLogLoss = Callable[[Tensor | None], Tensor]


def loss_of_try(
    source: BatchGradients, x: Tensor, y: Tensor, *, members: int, rounding: float
) -> LossOfTry | None:
    """Of one network on samples x (N, …), so many that a few take much less time than all; else None."""
    if members > 1 or len(x) < _SHARE * _FEWEST:
        return None
    return LossOfTry(partial(source.each_log_loss, x, y), samples=len(x), rounding=rounding)


class LossOfTry:
    """Log of the mean loss of one network, (1,), or infinity once it is known to be above a ceiling.

    A loss over some samples, divided by the number of all, is no more than that over all. So most tries that are to be
    taken back are found out by the few samples whose losses were largest when an epoch was last kept, which far below
    10^-10 have nearly all of the loss. What is kept, and every loss of it, is as if all had been looked at.
    ``each_log_loss`` gives the log-losses (1, n) of these rows (n,), of all N ``samples`` without rows, with a relative
    ``rounding`` of their logits.

    >>> def each_log_loss(rows):
    ...     every = -torch.arange(60_000, dtype=torch.float64)[None]
    ...     return every if rows is None else every[:, rows]
    >>> loss, nothing_lost = LossOfTry(each_log_loss, samples=60_000, rounding=1e-7), torch.tensor([False])
    >>> ceiling = torch.tensor([0.0], dtype=torch.float64)
    >>> round(loss(ceiling, nothing_lost).item(), 3)  # log Σ e^-k = 0.459, less log 60,000
    -10.543
    >>> loss.note(kept=torch.tensor([True]))
    >>> loss(ceiling - 11, nothing_lost).tolist(), len(loss.rows)
    ([inf], 2000)
    """

    def __init__(self, each_log_loss: EachLogLoss, *, samples: int, rounding: float) -> None:
        self._each_log_loss, self._samples, self._rounding = each_log_loss, samples, rounding
        self._few = samples // _SHARE
        self.rows: Tensor | None = None
        self._last: Tensor | None = None

    def __call__(self, ceiling: Tensor, lost: Tensor) -> Tensor:
        """The log-loss, or infinity where it is above ``ceiling`` (1,), or the try is ``lost``, (1,) bool."""
        self._last = None
        if bool(lost.all()):
            return torch.full_like(ceiling, math.inf)
        if self.rows is not None:
            least = self._mean(self._each_log_loss(self.rows))
            allowed = ceiling + _ROUNDING + _ROUNDINGS * self._rounding * ceiling.abs()
            if not bool(least <= allowed):  # NaN is not
                return torch.full_like(ceiling, math.inf)
        self._last = self._each_log_loss(None)
        return self._mean(self._last)

    def note(self, kept: Tensor) -> None:
        """Where the epoch was kept, (1,) bool, remember which samples had the largest losses."""
        if self._last is not None and bool(kept.all()):
            self.rows = self._last[0].topk(self._few).indices

    def _mean(self, log_losses: Tensor) -> Tensor:
        return torch.logsumexp(log_losses, dim=1) - math.log(self._samples)
