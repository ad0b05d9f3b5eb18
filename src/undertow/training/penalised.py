"""Gradients of a penalty for many networks at once, beside those of the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from undertow.core.members import over_members
from undertow.training.ensemble import Ensemble
from undertow.training.penalties import Penalty, Vectors
from undertow.training.penalties.hashed_signs import hashed_signs
from undertow.training.penalties.seam_view import SeamView
from undertow.training.penalties.seen import see

__all__ = ["PenaltyGradients"]


class PenaltyGradients:
    """∇ of weight · penalty of every member on a batch; what is random follows from the member's seed and the step.

    ``tables`` (M, N, …) are what the penalty remembers of every sample, changed in place. ``x`` (N, …) are all samples.
    """

    def __init__(
        self, ensemble: Ensemble, penalty: Penalty, *, seeds: Sequence[int], count: Tensor, x: Tensor
    ) -> None:
        self._ensemble, self._penalty, self._count = ensemble, penalty, count
        self._seeds = torch.tensor(seeds, dtype=torch.int64, device=ensemble.device)
        self._members = torch.arange(ensemble.size, device=ensemble.device)[:, None]
        self._view = None
        if penalty.cut is not None:
            self._view = SeamView(ensemble.network(0), penalty.cut, x)
            self._run = over_members(self._view)
        self.tables: Vectors = {}
        if penalty.remembers:
            leaves = {name: weight.detach() for name, weight in ensemble.weights.items()}
            with torch.enable_grad():
                _, found = self._of(leaves, x[:1].expand(ensemble.size, 1, *x.shape[1:]), {}, 0)
            self.tables = {
                name: each.new_zeros(ensemble.size, len(x), *each.shape[2:]) for name, each in found.items()
            }

    def told(self) -> Vectors:
        """What is remembered, by names for a checkpoint."""
        return {f"penalty.{name}": table for name, table in self.tables.items()}

    def add(
        self,
        x: Tensor,
        rows: Tensor | None,
        *,
        own: bool,
        first: int,
        share: float,
        onto: Mapping[str, Tensor],
    ) -> None:
        """Add ``share`` of the gradients on samples (B, …), or each member's own (M, B, …), to ``onto``.

        ``rows`` (B,) or (M, B) say which of all samples they are, where that is remembered; ``first`` is the place of
        the first of them in the batch that they are part of.
        """
        leaves = {name: weight.detach() for name, weight in self._ensemble.weights.items()}
        trained = [leaves[name].requires_grad_() for name in self._ensemble.trained]
        if not trained:
            return
        samples = x if own else x.expand(self._ensemble.size, *x.shape)
        vectors = (
            {} if rows is None else {name: table[self._members, rows] for name, table in self.tables.items()}
        )
        with torch.enable_grad():
            penalties, found = self._of(leaves, samples, vectors, first)
            total = self._penalty.weight * share * penalties.sum()
        gradients = torch.autograd.grad(total, trained, allow_unused=True)
        for name, gradient in zip(self._ensemble.trained, gradients, strict=True):
            if gradient is not None:  # the last bias has no part in the Jacobian
                onto[name].add_(gradient)
        if rows is not None:
            for name, table in self.tables.items():
                table[self._members, rows] = found[name]

    def _of(
        self, leaves: Mapping[str, Tensor], x: Tensor, vectors: Mapping[str, Tensor], first: int
    ) -> tuple[Tensor, Vectors]:
        def signs(like: Tensor, draw: int) -> Tensor:
            return hashed_signs(like, seeds=self._seeds, count=self._count, draw=draw, first=first)

        width = None if self._view is None else self._view.width
        return self._penalty.of_members(see(self._function(leaves), x, width=width), signs, vectors)

    def _function(self, leaves: Mapping[str, Tensor]) -> Callable[[Tensor], Tensor]:
        if self._view is None:
            return lambda x: self._ensemble.outputs(leaves, x, own=True)
        inside = {f"net.{name}": leaf for name, leaf in leaves.items()}
        buffers = {f"net.{name}": buffer for name, buffer in self._ensemble.buffers.items()}
        return lambda x: self._run(inside, buffers, x, True)
