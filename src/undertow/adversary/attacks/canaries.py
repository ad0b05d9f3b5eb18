"""A few survivors on which a costly attack is tried first, and what it would take to be deceived by them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["draw", "hidden_at_most"]


def draw(todo: Tensor, classes: Tensor, priority: Tensor, count: int) -> Tensor:
    """At most ``count`` of the samples ``todo`` (N,), by class: one of each, then in proportion to their numbers.

    ``priority`` (N,) is random and decides within a class, so that nothing depends on the order of the samples.

    >>> todo, classes = torch.ones(6, dtype=torch.bool), torch.tensor([0, 0, 0, 0, 7, 7])
    >>> draw(todo, classes, torch.tensor([3, 1, 0, 2, 1, 0]), 3).tolist()
    [False, True, True, False, False, True]
    """
    samples = todo.nonzero().squeeze(1)
    samples = samples[priority[samples].argsort()]
    samples = samples[classes[samples].sort(stable=True).indices]
    _, sizes = torch.unique_consecutive(classes[samples], return_counts=True)
    first = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    rank = torch.arange(len(samples), device=todo.device) - first
    turn = torch.where(rank == 0, -1.0, (rank + 0.5) / sizes.repeat_interleave(sizes))
    # two stable sorts: by turn, and where turns are equal by priority, not by the name of the class
    order = priority[samples].argsort()
    order = order[turn[order].sort(stable=True).indices]
    chosen = torch.zeros_like(todo)
    chosen[samples[order[:count]]] = True
    return chosen


def hidden_at_most(sizes: list[int], drawn: list[int], *, confidence: float = 0.95) -> int:
    """The most breakable samples that a draw without any can hide: one more would have shown with ``confidence``.

    Of the ``sizes`` n_c of the classes, ``drawn`` m_c were looked at. With h_c breakable ones in each class the draw
    misses all with probability ∏_c C(n_c − h_c, m_c)/C(n_c, m_c) (hypergeometric). The worst way to share h among the
    classes is found greedily: the logarithm of each factor is concave in h_c.

    >>> hidden_at_most([120], [24])                 # 13 of 120 are missed by 24 with 4.6 %
    12
    >>> hidden_at_most([60, 60], [24, 0])           # nobody looked at the second class
    65
    """
    left, missed = list(sizes), 0.0
    for hidden in range(sum(sizes) + 1):
        # the log of the factor by which one more in a class makes a miss less likely
        factors = [math.log1p(-m / n) if n > m else -math.inf for m, n in zip(drawn, left, strict=True)]
        missed += max(factors)
        if missed < math.log(1 - confidence):
            return hidden
        left[factors.index(max(factors))] -= 1
    return sum(sizes)
