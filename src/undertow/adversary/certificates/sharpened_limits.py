"""Limits of late layers made narrower by the same ascent as the scores: slopes free, neurons coupled by the ball.

A score difference passes through the relaxations of every layer, and those of a late one are only as good as its
limits. For a layer of few neurons each limit is worth an ascent of its own, as for a score: lines of the layers before
it are chosen for this neuron, and in L2 the ball couples theirs. In α-CROWN (Xu et al. 2021) all layers are treated so;
here those whose ascent costs less than the limits of one convolution, which are the ones that gain most.

The neurons of a convolution see patches (`patch_networks`), of which the ball says less: Σ_i w_i (z_i − ẑ_i)² over the
neurons of a patch is at most that over all, and as each term is at most 1, at most the number of them that are open.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.ball_coupling import ROUNDED, BallCoupling, BallCouplings
from undertow.adversary.certificates.linear_bounds import (
    LinearBounds,
    LowerBounds,
    Patches,
    both_signs,
    limits_on_patches,
)
from undertow.adversary.certificates.node_bounds import relaxed
from undertow.adversary.certificates.operations import AffineMap, CurveOf
from undertow.adversary.certificates.patch_balls import gathered
from undertow.adversary.certificates.picture_windows import Places
from undertow.adversary.certificates.row_budget import in_parts, row_entries, worthwhile
from undertow.adversary.certificates.slope_ascent import ascended_bounds

__all__ = ["sharpened"]

_STEPS, _STEPS_ON_PATCHES = 6, 3
_PASSES = 2  # that a step costs, forward and backward, in units of plain bounds


def sharpened(bounds: LinearBounds, ball: BallBounds, couplings: BallCouplings | None) -> BallBounds:
    """The same balls with limits at least as narrow, layer after layer, where that is affordable."""
    everyone = torch.arange(len(ball.x), device=ball.x.device)
    ball = ball.taken(everyone)  # its own tables: what was given stays as it is
    for index in sorted(bounds.wanted - bounds.affine):
        some = bounds.open_entries(index, *ball.limits[index])
        patches = bounds.patches(index)
        rows = 2 * len(some) * _PASSES * (_STEPS if patches is None else _STEPS_ON_PATCHES)
        if len(some) == 0 or rows * bounds.row_work(index) > worthwhile(ball.x.device):
            continue
        known = {} if couplings is None else couplings.on(ball)
        if patches is None:
            lower, upper = _limits(bounds, ball, index, some, known)
        else:
            lower, upper = _limits_on_patches(patches, ball, some, known)
        shape = bounds.graph.operations[index].shape
        low, high = (side.flatten(1).clone() for side in ball.limits[index])
        low[:, some] = torch.maximum(low[:, some], lower)
        high[:, some] = torch.minimum(high[:, some], upper)
        ball.limits[index] = low.reshape(-1, *shape), high.reshape(-1, *shape)
        for at, operation in enumerate(bounds.graph.operations):
            if index in operation.inputs and not isinstance(operation, AffineMap):
                ball.relaxations[at] = relaxed(
                    operation, [ball.limits[source] for source in operation.inputs]
                )
    return ball


def _limits(
    bounds: LinearBounds, ball: BallBounds, index: int, some: Tensor, known: dict[int, BallCoupling]
) -> tuple[Tensor, Tensor]:
    """Limits (B, n) of the entries ``some`` of one operation's result, by an ascent each."""
    shape, samples = bounds.graph.operations[index].shape, len(ball.eps)

    def limits(part: Tensor) -> Tensor:
        rows = both_signs(part, math.prod(shape)).reshape(1, 2 * len(part), *shape)
        rows = rows.expand(samples, *[-1] * (1 + len(shape)))
        found, _ = ascended_bounds(bounds, ball, rows, couplings=known, steps=_STEPS, at=index)
        return found.lower.unflatten(1, (2, len(part)))

    size = row_entries(some.device) // (4 * bounds.widest * samples)
    found = torch.cat(in_parts(some, size, limits), 2)
    return found[:, 0], -found[:, 1]


def _limits_on_patches(
    patches: Patches, ball: BallBounds, some: Tensor, known: dict[int, BallCoupling]
) -> tuple[Tensor, Tensor]:
    """The same for a convolution."""

    def bound(own: BallBounds, rows: Tensor, places: Places) -> LowerBounds:
        rows = rows.expand(len(own.eps), *[-1] * (rows.ndim - 1))
        coupled = _couplings_on_patches(patches, known, places)
        return ascended_bounds(patches[1], own, rows, couplings=coupled, steps=_STEPS_ON_PATCHES)[0]

    return limits_on_patches(patches, ball, some, bound)


def _couplings_on_patches(
    patches: Patches, known: dict[int, BallCoupling], places: Places
) -> dict[int, BallCoupling]:
    patch, local = patches
    found = {}
    for at, operation in enumerate(local.graph.operations):
        coupling = known.get(patch.origins[at][0])
        if coupling is None or not isinstance(operation, CurveOf):
            continue
        weight, centre = (gathered(patch, at, part, places) for part in (coupling.weight, coupling.centre))
        open_ended = (weight > 0).flatten(1).sum(1).to(weight)
        square = coupling.square.repeat_interleave(len(places[0]))
        found[at] = BallCoupling(weight, centre, torch.minimum(square, open_ended * ROUNDED))
    return found
