"""Measures that need no more of networks than their scores: those of one network, or of many at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from undertow.adversary.stacked_networks import stacked
from undertow.core.errors import InputError, ModelError
from undertow.core.stacked_members import StackedMembers
from undertow.jacobian.memory import chunk_size, default_budget, in_chunks
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Measure, Reading, StackedMeasure

__all__ = ["MeasureOfScores", "check_one_logit", "scores_batched"]


class MeasureOfScores(NamedMeasure, StackedMeasure, ABC):
    """A measure that needs no more of a network than its scores."""

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        with torch.no_grad():
            scores = net(x)
            _check_scores(scores)
            return iter(self.of_scores(scores[None], y)[0])

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """One forward pass of all networks."""
        return self.of_scores(scores_batched(networks, x), y)

    @abstractmethod
    def of_scores(self, scores: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """The readings of M networks from their scores, (M, N, k) or (M, N)."""


def scores_batched(networks: Sequence[nn.Module], x: Tensor) -> Tensor:
    """Scores (M, N, k) of samples (N, …), or (M, N) where the networks give a number; in chunks that fit.

    >>> nets = [nn.Linear(2, 1, bias=False) for _ in range(3)]
    >>> scores_batched(nets, torch.ones(5, 2)).shape
    torch.Size([3, 5, 1])
    """
    if isinstance(networks, StackedMembers):
        return networks.scores(x)
    members, function = len(networks), stacked(networks)
    widest = max([*(len(p) for p in networks[0].parameters() if p.dim()), x[0].numel()])
    chunk = chunk_size(len(x), 4 * members * widest * x.element_size(), default_budget(x.device))

    def work(part: slice) -> Tensor:
        return function(x[part].expand(members, *x[part].shape))

    with torch.no_grad():
        return torch.cat(list(in_chunks(len(x), chunk, work)), dim=1)


def check_one_logit(measure: Measure, scores: Tensor, points: int) -> None:
    """Refuse a network that gives more than one number a point to a measure that reads its sign."""
    if scores.numel() != points:
        raise InputError(
            f"{measure.name} reads the sign of one logit, and the network gives {tuple(scores.shape)} for {points} "
            "points: choose the loss logistic, exponential or bce."
        )


def _check_scores(scores: Tensor) -> None:
    """Refuse a network whose output is not one tensor."""
    if not isinstance(scores, Tensor):
        raise ModelError(
            f"the network returns {type(scores).__name__}, not one tensor: probe a torch.nn.Module around it that "
            "returns its scores."
        )
