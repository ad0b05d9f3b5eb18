"""Limits of late layers made narrower by the same ascent as the scores: slopes free, neurons coupled by the ball.

A score difference passes through the relaxations of every layer, and those of a late one are only as good as its
limits. For a layer of few neurons each limit is worth an ascent of its own, as for a score: lines of the layers before
it are chosen for this neuron, and in L2 the ball couples theirs. In α-CROWN (Xu et al. 2021) all layers are treated so;
here those whose ascent costs less than the limits of one convolution, which are the ones that gain most.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_coupling import BallCouplings
from undertow.adversary.certificates.linear_bounds import BallBounds, LinearBounds
from undertow.adversary.certificates.node_bounds import relaxed
from undertow.adversary.certificates.operations import AffineMap
from undertow.adversary.certificates.row_budget import row_entries, worthwhile
from undertow.adversary.certificates.slope_ascent import ascended_bounds

__all__ = ["sharpened"]

_STEPS = 3
_PASSES = 2  # that a step costs, forward and backward, in units of plain bounds


def sharpened(bounds: LinearBounds, ball: BallBounds, couplings: BallCouplings | None) -> BallBounds:
    """The same balls with limits at least as narrow, layer after layer, where that is affordable."""
    everyone = torch.arange(len(ball.x), device=ball.x.device)
    ball = ball.taken(everyone)  # its own tables: what was given stays as it is
    for index in sorted(bounds.wanted - bounds.affine):
        some = bounds.open_entries(index, *ball.limits[index])
        rows = 2 * len(some) * _STEPS * _PASSES
        if len(some) == 0 or rows * bounds.work[index] > worthwhile(ball.x.device):
            continue
        ball.limits[index] = _limits(bounds, ball, index, some, couplings)
        for at, operation in enumerate(bounds.graph.operations):
            if index in operation.inputs and not isinstance(operation, AffineMap):
                ball.relaxations[at] = relaxed(
                    operation, [ball.limits[source] for source in operation.inputs]
                )
    return ball


def _limits(
    bounds: LinearBounds, ball: BallBounds, index: int, some: Tensor, couplings: BallCouplings | None
) -> tuple[Tensor, Tensor]:
    """The limits of one operation's result, those of the entries ``some`` by an ascent each."""
    shape, samples = bounds.graph.operations[index].shape, len(ball.x)
    low, high = (side.flatten(1).clone() for side in ball.limits[index])
    known = {} if couplings is None else couplings.on(ball)
    size = max(1, row_entries(low.device) // (4 * bounds.widest * samples))
    for part in torch.split(some, size):
        sides = torch.zeros(2, len(part), math.prod(shape), dtype=torch.float64, device=low.device)
        each = torch.arange(len(part), device=low.device)
        sides[0, each, part], sides[1, each, part] = 1.0, -1.0
        rows = sides.reshape(1, 2 * len(part), *shape).expand(samples, *[-1] * (1 + len(shape)))
        found = ascended_bounds(bounds, ball, rows, couplings=known, steps=_STEPS, at=index)
        low[:, part] = torch.maximum(low[:, part], found[:, : len(part)])
        high[:, part] = torch.minimum(high[:, part], -found[:, len(part) :])
    return low.reshape(-1, *shape), high.reshape(-1, *shape)
