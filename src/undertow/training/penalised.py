"""Gradients of a penalty for many networks at once, beside those of the loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from undertow.training.ensemble import Ensemble
from undertow.training.penalties import Penalty
from undertow.training.penalties.hashed_signs import hashed_signs

__all__ = ["PenaltyGradients"]


class PenaltyGradients:
    """∇ of weight · penalty of every member on a batch; what is random follows from the member's seed and the step."""

    def __init__(self, ensemble: Ensemble, penalty: Penalty, *, seeds: Sequence[int], count: Tensor) -> None:
        self._ensemble, self._penalty, self._count = ensemble, penalty, count
        self._seeds = torch.tensor(seeds, dtype=torch.int64, device=ensemble.device)

    def add(self, x: Tensor, *, own: bool, first: int, share: float, onto: Mapping[str, Tensor]) -> None:
        """Add ``share`` of the gradients on samples (B, …), or each member's own (M, B, …), to ``onto``.

        ``first`` is the place of the first of them in the batch that they are part of.
        """
        leaves = {name: weight.detach() for name, weight in self._ensemble.weights.items()}
        trained = [leaves[name].requires_grad_() for name in self._ensemble.trained]
        if not trained:
            return
        samples = x if own else x.expand(self._ensemble.size, *x.shape)

        def signs(like: Tensor, draw: int) -> Tensor:
            return hashed_signs(like, seeds=self._seeds, count=self._count, draw=draw, first=first)

        with torch.enable_grad():
            penalties = self._penalty.of_members(
                lambda inputs: self._ensemble.outputs(leaves, inputs, own=True),
                samples.detach().requires_grad_(),
                signs,
            )
            total = self._penalty.weight * share * penalties.sum()
        gradients = torch.autograd.grad(total, trained, allow_unused=True)
        for name, gradient in zip(self._ensemble.trained, gradients, strict=True):
            if gradient is not None:  # the last bias has no part in the Jacobian
                onto[name].add_(gradient)
