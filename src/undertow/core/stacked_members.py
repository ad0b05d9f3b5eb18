"""Networks of one architecture on weights that are held as one, and what several measures want of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import overload

from torch import Tensor, nn

__all__ = ["StackedMembers"]


class StackedMembers(Sequence[nn.Module]):
    """M networks whose parameters are slices of tensors (M, …), as they stand at one moment.

    To a measure it is a sequence of networks. One that would stack their weights finds them stacked in ``weights``,
    and scores that another measure has asked for are computed once, by ``logits``: (N, …) → (M, N, k).

    >>> import torch
    >>> weight = torch.ones(3, 1, 2)
    >>> nets = [nn.Linear(2, 1, bias=False) for _ in range(3)]
    >>> members = StackedMembers(nets, {"weight": weight}, lambda x: torch.einsum("moi,ni->mno", weight, x))
    >>> len(members), members.scores(torch.ones(5, 2)).shape
    (3, torch.Size([3, 5, 1]))
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        weights: Mapping[str, Tensor],
        logits: Callable[[Tensor], Tensor],
    ) -> None:
        self._networks, self.weights, self._logits = networks, weights, logits
        self._scores: list[tuple[Tensor, Tensor]] = []

    def scores(self, x: Tensor) -> Tensor:
        """Logits (M, N, k) of samples (N, …); not to be changed."""
        for seen, scores in self._scores:
            if seen.data_ptr() == x.data_ptr() and seen.shape == x.shape:
                return scores
        self._scores.append((x, self._logits(x)))
        return self._scores[-1][1]

    def __len__(self) -> int:
        return len(self._networks)

    @overload
    def __getitem__(self, index: int) -> nn.Module: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[nn.Module]: ...
    def __getitem__(self, index: int | slice) -> nn.Module | Sequence[nn.Module]:
        return self._networks[index]
