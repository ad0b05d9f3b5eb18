"""Attacks that begin where the certificate is weakest.

A gradient does not see a neuron that is off at a point; searches that follow it pass by the places where several such
neurons come on together. The certificate's linear bounds do see them: the point of the ball where they are smallest is
where the network would fail if they were tight, and a good place to begin.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from undertow.adversary.attacks.refine import shrink
from undertow.adversary.attacks.search import Search
from undertow.adversary.certificates.member_proofs import weakest_directions_of
from undertow.adversary.certificates.network_graph import NetworkGraph

__all__ = ["find_by_certificate", "follow_certificate"]

_FACTORS = (1.0, 0.98, 0.98, 0.98)  # the first asks for any improvement at all
_DOUBLINGS = 10  # of the certified radius


def find_by_certificate(
    search: Search, graphs: Sequence[NetworkGraph], shape: torch.Size, certified: Tensor
) -> None:
    """Look for examples where none is known: where all neurons are off, there is no gradient to follow.

    Arguments as in :func:`follow_certificate`. The balls grow from the one that is ``certified`` (M, N) to hold none.
    """
    points = search.x.reshape(-1, *shape)
    for doubling in range(1, _DOUBLINGS + 1):
        todo = search.distance.isinf() & certified.isfinite()
        if not bool(todo.any()):
            return
        radius = torch.where(todo, 2**doubling * certified, 0.0)
        shrink(search, _weakest_points(search, graphs, points, radius), todo, 1.0, radius=radius)


def follow_certificate(search: Search, graphs: Sequence[NetworkGraph], shape: torch.Size) -> None:
    """Shorten the examples known, each network's from the weakest points of its own certificate.

    ``graphs`` has one entry for each network; ``shape`` is that of a sample, as the graphs take it.
    """
    points = search.x.reshape(-1, *shape)
    todo = (search.distance > 0) & search.distance.isfinite()
    for factor in _FACTORS:
        if not bool(todo.any()):
            return
        radius = torch.where(todo, search.distance, 0.0)
        todo = shrink(search, _weakest_points(search, graphs, points, radius), todo, factor)


def _weakest_points(search: Search, graphs: Sequence[NetworkGraph], points: Tensor, radius: Tensor) -> Tensor:
    """(M, N, d): the weakest point of each network's certificate on the balls of ``radius`` (M, N), x where it is 0."""
    directions = weakest_directions_of(graphs, points, search.y, radius, search.norm)
    return search.x + (radius.unsqueeze(-1) * directions).to(search.x)
