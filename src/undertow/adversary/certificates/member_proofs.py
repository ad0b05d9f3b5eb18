"""Bounds of several networks at once, with an axis of networks in front."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_minimum import Box
from undertow.adversary.certificates.certified import certified_radii, gap_bounds, weakest_directions
from undertow.adversary.certificates.lipschitz import lipschitz_bounds
from undertow.adversary.certificates.network_graph import NetworkGraph
from undertow.adversary.certificates.stacked_graphs import together

__all__ = ["gap_bounds_of", "radii_of", "slopes_of", "weakest_directions_of"]


def gap_bounds_of(
    graphs: Sequence[NetworkGraph], x: Tensor, y: Tensor, eps: Tensor, norm: float, box: Box = None
) -> Tensor:
    """`gap_bounds` (M, N, k) of every network, over balls of radius ``eps`` (N,)."""
    found = []
    for members, graph in together(graphs):
        who, own = _pairs(members, x)
        gaps = gap_bounds(graph, x[own], y[own], eps[own], norm, box, who=who)
        found.append(gaps.reshape(len(members), len(x), -1))
    return torch.cat(found)


def radii_of(graphs: Sequence[NetworkGraph], x: Tensor, y: Tensor, norm: float, box: Box = None) -> Tensor:
    """`certified_radii` (M, N) of every network."""
    found = []
    for members, graph in together(graphs):
        who, own = _pairs(members, x)
        found.append(certified_radii(graph, x[own], y[own], norm, box, who=who).reshape(-1, len(x)))
    return torch.cat(found)


def slopes_of(graphs: Sequence[NetworkGraph], x: Tensor, y: Tensor, radius: Tensor, norm: float) -> Tensor:
    """`lipschitz_bounds` (M, N, k) of all differences of every network, over balls of ``radius`` (M, N)."""
    found = []
    for members, graph in together(graphs):
        who, own = _pairs(members, x)
        reach = radius[members.start : members.stop].flatten()
        slopes = lipschitz_bounds(graph, x[own], y[own], reach, norm, None, who=who)
        found.append(slopes.reshape(len(members), len(x), -1))
    return torch.cat(found)


def weakest_directions_of(
    graphs: Sequence[NetworkGraph], x: Tensor, y: Tensor, eps: Tensor, norm: float
) -> Tensor:
    """`weakest_directions` (M, N, d) of every network, on balls of radius ``eps`` (M, N); zero where that is 0."""
    found = torch.zeros(*eps.shape, x[0].numel(), dtype=torch.float64, device=x.device)
    for members, graph in together(graphs):
        who, own = (eps[members.start : members.stop] > 0).nonzero(as_tuple=True)
        if len(own):
            reach = eps[members.start + who, own]
            directions = weakest_directions(graph, x[own], y[own], reach, norm, who=who)
            found[members.start + who, own] = directions
    return found


def _pairs(members: range, x: Tensor) -> tuple[Tensor, Tensor]:
    """Every network with every sample: which of these networks, and which sample."""
    who = torch.arange(len(members), device=x.device).repeat_interleave(len(x))
    return who, torch.arange(len(x), device=x.device).repeat(len(members))
