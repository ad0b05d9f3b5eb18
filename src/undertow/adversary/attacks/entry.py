"""What an attack brings with it: its name, how it runs, and what it costs, so that a registry needs one line for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from undertow.adversary.attacks.search import Search

__all__ = ["FEW", "TARGETS", "AttackEntry", "Runner", "targets_left"]

TARGETS = 9
"""Wrong classes that targeted attacks try, the strongest first."""
FEW = 24
"""Survivors of each member on which a costly attack is tried before all."""

Runner = Callable[[Search, float, Tensor, Tensor], list[str]]
"""(search, ε, samples to attack (M, N), (sample, class) pairs not excluded (M, N, k)) → notes."""


@dataclass(frozen=True)
class AttackEntry:
    """An attack as ``robust_accuracy`` finds, announces and runs it.

    ``passes`` are the forward and backward passes for a sample of k classes that the attack does not break: the most
    that it costs, known before it runs.
    """

    name: str
    run: Runner
    passes: Callable[[int], tuple[int, int]]
    minimal: bool = False
    """Whether it looks for the smallest perturbation: ε does not matter to it, and it sees each sample once."""
    few_first: bool = False
    """Whether it is tried on ``FEW`` survivors of each member, and goes on to all only if it breaks one of these."""


def targets_left(
    search: Search, eps: float, todo: Tensor, pairs: Tensor
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """The strongest wrong classes one after the other: rank, class of each sample (M, N), and samples still to attack.

    Samples that a class before has broken within ε are left out, and pairs that a certificate excludes.
    """
    ranked = search.ranked[..., :TARGETS]
    for rank in range(ranked.shape[-1]):
        target = ranked[..., rank]
        possible = pairs.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        yield rank, target, todo & (search.distance > eps) & possible
