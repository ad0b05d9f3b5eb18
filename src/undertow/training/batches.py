"""The samples of every step: data that lives on the device, cut into batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

__all__ = ["Batches", "Turn", "epoch_order"]

Turn = tuple[int, int]
"""Which epoch a member is in, and how often it has tried that one before."""


class Batches:
    """Batches of x (N, …) and y (N,) for M members, by the number of the step.

    Members that share an order share the batch, (B, …); with different seeds each has its own, (M, B, …).
    The last batch of an epoch may be smaller. ``seeds=None`` keeps the order of the data. With ``apart`` every
    member has its own order, also where all happen to be the same: members then may be in different epochs.
    With ``own`` each member has a data set of its own, x (M, N, …) and y (M, N), and every batch is (M, B, …).
    With ``numbered`` every batch comes with the numbers of its samples, (B,) or (M, B). With
    ``label_noise`` σ every label has Gaussian noise of that standard deviation, drawn anew in every epoch.

    >>> batches = Batches(torch.arange(5.0).view(5, 1), torch.arange(5), size=2, seeds=None)
    >>> batches.per_epoch, [batches.at(step)[1].tolist() for step in range(4)]
    (3, [[0, 1], [2, 3], [4], [0, 1]])
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        *,
        size: int | None,
        seeds: Sequence[int] | None,
        apart: bool = False,
        numbered: bool = False,
        label_noise: float = 0.0,
        own: bool = False,
    ) -> None:
        self.x, self.y, self.own, self._label_noise = x, y, own, label_noise
        self._samples = x.shape[self._axis]
        self.size = self._samples if size is None else min(size, self._samples)
        self.per_epoch = -(-self._samples // self.size)
        self._seeds = None if self.whole else seeds
        self._apart, self._numbered = apart, numbered
        self._order = torch.empty(0, dtype=torch.int64, device=x.device)
        self._within = torch.arange(self.size, device=x.device)
        self._noise = torch.empty(0, device=x.device)
        self._members = torch.arange(len(x) if own else len(seeds or ()), device=x.device)[:, None]
        self._turns: Sequence[Turn] = []

    @property
    def whole(self) -> bool:
        """Whether every batch is the whole data set as it is, whose order does not matter."""
        return self.size == self._samples and not self._label_noise

    @property
    def label_axes(self) -> int:
        """Axes of the labels of one data set: 1 for a number per sample, 2 for several targets."""
        return self.y.dim() - self._axis

    def of(self, member: int) -> tuple[Tensor, Tensor]:
        """All samples (N, …) and labels of one member."""
        return (self.x[member], self.y[member]) if self.own else (self.x, self.y)

    @property
    def _axis(self) -> int:
        return 1 if self.own else 0

    def full(self, step: int) -> bool:
        """Whether the batch of this step has the full size."""
        return (step % self.per_epoch + 1) * self.size <= self._samples

    def at(self, step: int, turns: Sequence[Turn] | None = None) -> tuple[Tensor, ...]:
        """Samples and labels of step number ``step``, counted from 0 over all epochs; where ``numbered``, their rows.

        ``turns`` are each member's epoch and how often it has tried that before; by default all are in the epoch that
        follows from the step, for the first time.
        """
        within = step % self.per_epoch
        rows = slice(within * self.size, (within + 1) * self.size)
        if self._seeds is None:
            batch = (self.x[:, rows], self.y[:, rows]) if self.own else (self.x[rows], self.y[rows])
            return (
                (*batch, torch.arange(self._samples, device=self.x.device)[rows]) if self._numbered else batch
            )
        self.turn_to(step, turns)
        return self._picked(self._order[..., rows])

    def turn_to(self, step: int, turns: Sequence[Turn] | None = None) -> None:
        """Put the samples in the order of this step's epoch, for ``picked``; arguments are those of ``at``."""
        if self._seeds is None:
            return
        turns = [(step // self.per_epoch, 0)] * len(self._seeds) if turns is None else turns
        if turns != self._turns:
            order = _orders(self._samples, self._seeds, turns, apart=self._apart)
            self._order = _put(order, self._order)
            if self._label_noise:
                shape = self.y.shape[self._axis :]
                drawn = _drawn_anew(partial(_gaussian, shape), self._seeds, turns, apart=self._apart)
                self._noise = _put(self._label_noise * drawn.to(self.y.dtype), self._noise)
            self._turns = turns

    def picked(self, count: Tensor) -> tuple[Tensor, ...]:
        """The full batch of update number ``count``, a tensor, in the present order: the host is not asked."""
        if self.whole:
            return (self.x, self.y, self._within) if self._numbered else (self.x, self.y)
        rows = torch.add(self._within, count % self.per_epoch, alpha=self.size)
        return self._picked(rows if self._seeds is None else self._order.index_select(-1, rows))

    def _picked(self, order: Tensor) -> tuple[Tensor, ...]:
        x, labels = self._rows(self.x, order), self._rows(self.y, order)
        if self._label_noise:
            labels = labels + (self._noise[order] if order.dim() == 1 else self._noise[self._members, order])
        return (x, labels, order) if self._numbered else (x, labels)

    def _rows(self, values: Tensor, order: Tensor) -> Tensor:
        """The rows (B, …) or (M, B, …) that an order (B,) or (M, B) names."""
        if not self.own:
            return values.index_select(0, order.flatten()).view(*order.shape, *values.shape[1:])
        return values.index_select(1, order) if order.dim() == 1 else values[self._members, order]


def epoch_order(samples: int, *, seeds: Sequence[int], epoch: int, attempt: int = 0) -> Tensor:
    """One permutation of the samples per member, (M, N), or (N,) when all seeds are the same.

    It depends on (seed, epoch) alone, and for an epoch that is done again on the number of failed tries before: a
    resumed run needs no state of a random generator, and a network meets its samples in the same order alone
    and among others. Drawn on the CPU, the same on every device.

    >>> order = epoch_order(6, seeds=[0, 1], epoch=3)
    >>> order.shape, torch.equal(order[1], epoch_order(6, seeds=[1], epoch=3))
    (torch.Size([2, 6]), True)
    >>> torch.equal(epoch_order(6, seeds=[0], epoch=3), epoch_order(6, seeds=[0], epoch=4))
    False
    >>> torch.equal(epoch_order(6, seeds=[0], epoch=3), epoch_order(6, seeds=[0], epoch=3, attempt=1))
    False
    """
    return _orders(samples, seeds, [(epoch, attempt)] * len(seeds), apart=False)


def _orders(samples: int, seeds: Sequence[int], turns: Sequence[Turn], *, apart: bool) -> Tensor:
    return _drawn_anew(partial(_permutation, samples), seeds, turns, apart=apart)


def _drawn_anew(
    draw: Callable[[int, int, int], Tensor], seeds: Sequence[int], turns: Sequence[Turn], *, apart: bool
) -> Tensor:
    """What each member's seed, epoch and number of tries draw, stacked where members differ, or ``apart``."""
    keys = [(seed, *turn) for seed, turn in zip(seeds, turns, strict=True)]
    drawn = {key: draw(*key) for key in dict.fromkeys(keys)}
    if len(drawn) == 1 and not (apart and len(keys) > 1):
        return drawn[keys[0]]
    return torch.stack([drawn[key] for key in keys])


def _put(new: Tensor, old: Tensor) -> Tensor:
    """The new values where the old ones were, so that a captured step reads them; elsewhere if they do not fit."""
    return new.to(old.device) if new.shape != old.shape else old.copy_(new)


def _permutation(samples: int, seed: int, epoch: int, attempt: int) -> Tensor:
    entropy = (seed, epoch, attempt) if attempt else (seed, epoch)
    return torch.randperm(samples, generator=_generator(entropy))


def _gaussian(shape: torch.Size, seed: int, epoch: int, attempt: int) -> Tensor:
    """Of the shape of all labels; another stream than that of the order."""
    return torch.randn(shape, generator=_generator((seed, epoch, attempt, 1)), dtype=torch.float64)


def _generator(entropy: tuple[int, ...]) -> torch.Generator:
    # SeedSequence mixes the numbers, so that (seed, epoch) and (seed + 1, epoch - 1) have nothing in common.
    mixed = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])
    return torch.Generator().manual_seed(mixed >> 1)
