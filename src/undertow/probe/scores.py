"""The outputs of several networks of one architecture on the same points."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from undertow.adversary.stacked_networks import stacked
from undertow.jacobian.memory import chunk_size, default_budget, in_chunks

__all__ = ["scores_together"]


def scores_together(networks: Sequence[nn.Module], x: Tensor) -> Tensor:
    """Scores (M, N, k) of samples (N, …), or (M, N) where the networks give a number; in chunks that fit.

    >>> nets = [nn.Linear(2, 1, bias=False) for _ in range(3)]
    >>> scores_together(nets, torch.ones(5, 2)).shape
    torch.Size([3, 5, 1])
    """
    members, function = len(networks), stacked(networks)
    widest = max([*(len(p) for p in networks[0].parameters() if p.dim()), x[0].numel()])
    chunk = chunk_size(len(x), 4 * members * widest * x.element_size(), default_budget(x.device))

    def work(part: slice) -> Tensor:
        return function(x[part].expand(members, *x[part].shape))

    with torch.no_grad():
        return torch.cat(list(in_chunks(len(x), chunk, work)), dim=1)
