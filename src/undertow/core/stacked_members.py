"""Networks of one architecture on weights that are held as one, and what several measures want of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import overload

from torch import Tensor, nn

from undertow.core.errors import InputError

__all__ = ["StackedMembers"]


class StackedMembers(Sequence[nn.Module]):
    """M networks whose parameters are slices of tensors (M, …), as they stand at one moment.

    To a measure it is a sequence of networks, each made (by ``network``) when it is asked for. One that would stack
    their weights finds them stacked in ``weights``, and scores that another measure has asked for are computed once,
    by ``logits``: (N, …) → (M, N, k). Whoever trains them also gives ``losses``, of each one on its training set.

    >>> import torch
    >>> weight = torch.ones(3, 1, 2)
    >>> logits = lambda x: torch.einsum("moi,ni->mno", weight, x)
    >>> members = StackedMembers(3, lambda index: nn.Linear(2, 1), {"weight": weight}, logits)
    >>> len(members), members.scores(torch.ones(5, 2)).shape, members[0]
    (3, torch.Size([3, 5, 1]), Linear(in_features=2, out_features=1, bias=True))
    """

    def __init__(
        self,
        size: int,
        network: Callable[[int], nn.Module],
        weights: Mapping[str, Tensor],
        logits: Callable[[Tensor], Tensor],
        losses: Callable[[], Tensor] | None = None,
    ) -> None:
        self._size, self._network, self.weights, self._logits = size, network, weights, logits
        self._losses = losses
        self._log_loss: Tensor | None = None
        self._scores: list[tuple[Tensor, Tensor]] = []

    def scores(self, x: Tensor) -> Tensor:
        """Logits (M, N, k) of samples (N, …); not to be changed."""
        for seen, scores in self._scores:
            if seen.data_ptr() == x.data_ptr() and seen.shape == x.shape:
                return scores
        self._scores.append((x, self._logits(x)))
        return self._scores[-1][1]

    def log_loss(self) -> Tensor:
        """Natural logarithm of each one's mean loss over its training set, (M,) float64; computed once."""
        if self._log_loss is None:
            if self._losses is None:
                raise InputError("these networks are not being trained: they have no training loss.")
            self._log_loss = self._losses()
        return self._log_loss

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> nn.Module: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[nn.Module]: ...
    def __getitem__(self, index: int | slice) -> nn.Module | Sequence[nn.Module]:
        places = range(self._size)[index]
        return (
            self._network(places) if isinstance(places, int) else [self._network(place) for place in places]
        )
