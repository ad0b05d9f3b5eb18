"""Attacks that begin where the certificate is weakest.

A gradient does not see a neuron that is off at a point; searches that follow it pass by the places where several such
neurons come on together. The certificate's linear bounds do see them: the point of the ball where they are smallest is
where the network would fail if they were tight, and a good place to begin.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from undertow.adversary.crown import weakest_directions
from undertow.adversary.layers import Stage
from undertow.adversary.refine import shrink
from undertow.adversary.search import Search

__all__ = ["follow_certificate"]

_FACTORS = (1.0, 0.98, 0.98, 0.98)  # the first asks for any improvement at all


def follow_certificate(search: Search, chains: Sequence[list[Stage]], shape: torch.Size) -> None:
    """Shorten the examples known, each network's from the weakest points of its own certificate.

    ``chains`` has one entry for each network; ``shape`` is that of a sample, as the chains take it.
    """
    points = search.x.reshape(-1, *shape)
    todo = (search.distance > 0) & search.distance.isfinite()
    for factor in _FACTORS:
        if not bool(todo.any()):
            return
        radius = torch.where(todo, search.distance, 0.0)
        directions = [
            weakest_directions(chain, points, search.y, own, search.norm)
            for chain, own in zip(chains, radius, strict=True)
        ]
        start = search.x + (radius.unsqueeze(-1) * torch.stack(directions)).to(search.x)
        todo = shrink(search, start, todo, factor)
