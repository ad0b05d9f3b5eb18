"""A batch of samples that belong to several networks of one architecture, as one row of samples for each network."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["MemberBatch", "taken"]


@dataclass(frozen=True, eq=False)
class MemberBatch:
    """Sample i belongs to the network ``who``_i; those met are ``first`` … ``first`` + ``count`` − 1.

    Products with their weights take arrays (count, longest, …), a row for each network. Where networks have different
    numbers of samples, rows are filled up with a sample that is dropped again.
    """

    who: Tensor
    first: int
    count: int
    longest: int
    place: Tensor | None
    """Which sample is at each place of these arrays, and at which place each sample is; None where all is in order."""
    back: Tensor | None

    @staticmethod
    def of(who: Tensor) -> MemberBatch:
        """The batch of samples of these networks, in any order.

        >>> batch = MemberBatch.of(torch.tensor([1, 2, 1]))
        >>> batch.spread(torch.tensor([10, 20, 11])).tolist()
        [[10, 11], [20, 10]]
        >>> batch.collected(batch.spread(torch.tensor([10, 20, 11]))).tolist()
        [10, 20, 11]
        """
        first, last = int(who.min()), int(who.max())
        own = who - first
        counts = torch.bincount(own, minlength=last - first + 1)
        longest, everyone = int(counts.max()), torch.arange(len(who), device=who.device)
        if len(who) == len(counts) * longest and bool((own == everyone // longest).all()):
            return MemberBatch(who, first, len(counts), longest, None, None)
        order = own.argsort(stable=True)
        rank = torch.empty_like(order)
        rank[order] = everyone - (counts.cumsum(0) - counts)[own[order]]
        back = own * longest + rank
        place = torch.zeros(len(counts) * longest, dtype=torch.long, device=who.device)
        place[back] = everyone
        return MemberBatch(who, first, len(counts), longest, place, back)

    def spread(self, values: Tensor) -> Tensor:
        """(B, …) as (count, longest, …)."""
        values = values if self.place is None else values[self.place]
        return values.reshape(self.count, self.longest, *values.shape[1:])

    def collected(self, values: Tensor) -> Tensor:
        """(count, longest, …) as (B, …)."""
        flat = values.flatten(0, 1)
        return flat if self.back is None else flat[self.back]

    def met(self, weights: Tensor) -> Tensor:
        """Of weights (M, …) those (count, …) of the networks met."""
        return weights[self.first : self.first + self.count]

    def each(self, values: Tensor) -> Tensor:
        """Of values (M, …) those (B, …) of every sample's network."""
        return values[self.who]


def taken(who: Tensor | None, index: Tensor) -> Tensor | None:
    """Which networks these samples are about; None where there is one."""
    return None if who is None else who[index]
