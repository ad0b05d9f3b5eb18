"""The samples of every step: data that lives on the device, cut into batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

__all__ = ["Batches", "epoch_order"]


class Batches:
    """Batches of x (N, …) and y (N,) for M members, by the number of the step.

    Members that share an order share the batch, (B, …); with different seeds each has its own, (M, B, …).
    The last batch of an epoch may be smaller. ``seeds=None`` keeps the order of the data.

    >>> batches = Batches(torch.arange(5.0).view(5, 1), torch.arange(5), size=2, seeds=None)
    >>> batches.per_epoch, [batches.at(step)[1].tolist() for step in range(4)]
    (3, [[0, 1], [2, 3], [4], [0, 1]])
    """

    def __init__(self, x: Tensor, y: Tensor, *, size: int | None, seeds: Sequence[int] | None) -> None:
        self.x, self.y = x, y
        self.size = len(x) if size is None else min(size, len(x))
        self.per_epoch = -(-len(x) // self.size)
        self._seeds = None if self.whole else seeds
        self._order = torch.empty(0, dtype=torch.int64)
        self._epoch = -1

    @property
    def whole(self) -> bool:
        """Whether every batch is the whole data set, whose order does not matter."""
        return self.size == len(self.x)

    def full(self, step: int) -> bool:
        """Whether the batch of this step has the full size."""
        return (step % self.per_epoch + 1) * self.size <= len(self.x)

    def at(self, step: int) -> tuple[Tensor, Tensor]:
        """Samples and labels of step number ``step``, counted from 0 over all epochs."""
        epoch, within = divmod(step, self.per_epoch)
        rows = slice(within * self.size, (within + 1) * self.size)
        if self._seeds is None:
            return self.x[rows], self.y[rows]
        if epoch != self._epoch:
            self._order = epoch_order(len(self.x), seeds=self._seeds, epoch=epoch).to(self.x.device)
            self._epoch = epoch
        picked = self._order[..., rows]
        x = self.x.index_select(0, picked.flatten())
        return x.view(*picked.shape, *self.x.shape[1:]), self.y[picked]


def epoch_order(samples: int, *, seeds: Sequence[int], epoch: int) -> Tensor:
    """One permutation of the samples per member, (M, N), or (N,) when all seeds are the same.

    It depends on (seed, epoch) alone: a resumed run needs no state of a random generator, and a network
    meets its samples in the same order alone and among others. Drawn on the CPU, the same on every device.

    >>> order = epoch_order(6, seeds=[0, 1], epoch=3)
    >>> order.shape, torch.equal(order[1], epoch_order(6, seeds=[1], epoch=3))
    (torch.Size([2, 6]), True)
    >>> torch.equal(epoch_order(6, seeds=[0], epoch=3), epoch_order(6, seeds=[0], epoch=4))
    False
    """
    drawn = {seed: _permutation(samples, seed, epoch) for seed in dict.fromkeys(seeds)}
    if len(drawn) == 1:
        return drawn[seeds[0]]
    return torch.stack([drawn[seed] for seed in seeds])


def _permutation(samples: int, seed: int, epoch: int) -> Tensor:
    # SeedSequence mixes the pair, so that (seed, epoch) and (seed + 1, epoch - 1) have nothing in common.
    mixed = int(np.random.SeedSequence((seed, epoch)).generate_state(1, np.uint64)[0])
    return torch.randperm(samples, generator=torch.Generator().manual_seed(mixed >> 1))
