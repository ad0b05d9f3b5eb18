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
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.ball_coupling import ROUNDED, BallCoupling, BallCouplings
from undertow.adversary.certificates.entry_rows import both_signs, limits_on_patches
from undertow.adversary.certificates.linear_bounds import LinearBounds, Patches
from undertow.adversary.certificates.lower_bounds import LowerBounds
from undertow.adversary.certificates.node_bounds import relaxed
from undertow.adversary.certificates.operations import AffineMap, CurveOf
from undertow.adversary.certificates.patch_balls import gathered
from undertow.adversary.certificates.patch_networks import PatchNetwork
from undertow.adversary.certificates.picture_windows import Places
from undertow.adversary.certificates.row_budget import in_parts, row_entries, worthwhile
from undertow.adversary.certificates.slope_ascent import ascended_bounds

__all__ = ["sharpened"]

_STEPS, _STEPS_ON_PATCHES = 6, 3
_PASSES = 2  # that a step costs, forward and backward, in units of plain bounds


def sharpened(bounds: LinearBounds, ball: BallBounds, couplings: BallCouplings | None) -> BallBounds:
    """The same balls with limits at least as narrow, layer after layer, where that is affordable."""
    # its own tables: what was given stays as it is
    ball = replace(ball, limits=dict(ball.limits), relaxations=dict(ball.relaxations))
    for index in sorted(bounds.wanted - bounds.affine):
        patches = bounds.patches(index)
        steps = _STEPS if patches is None else _STEPS_ON_PATCHES
        if bounds.layer_work(index) * _PASSES * steps > worthwhile(ball.x.device):
            continue
        known = {} if couplings is None else couplings.on(ball)
        work = partial(_limits, bounds, ball, index, known)
        if patches is not None:
            work = partial(_limits_on_patches, patches, ball, known)
        ball.limits[index] = bounds.narrowed(index, ball.limits[index], work)
        for at, operation in enumerate(bounds.graph.operations):
            if index in operation.inputs and not isinstance(operation, AffineMap):
                given = [ball.limits[source] for source in operation.inputs]
                ball.relaxations[at] = relaxed(operation, given)
    return ball


def _limits(
    bounds: LinearBounds,
    ball: BallBounds,
    index: int,
    known: dict[int, BallCoupling],
    samples: Tensor,
    entries: Tensor,
) -> tuple[Tensor, Tensor]:
    """Limits (P,) of these entries of one operation's result in these samples, by an ascent each."""
    shape = bounds.graph.operations[index].shape

    def limits(part: Tensor) -> Tensor:
        own, rows = samples[part], both_signs(entries[part], math.prod(shape))
        rows = rows.reshape(2, len(part), *shape).transpose(0, 1)
        coupled = {at: coupling.taken(own) for at, coupling in known.items()}
        found, _ = ascended_bounds(bounds, ball.taken(own), rows, couplings=coupled, steps=_STEPS, at=index)
        return found.lower

    everyone = torch.arange(len(samples), device=samples.device)
    found = torch.cat(in_parts(everyone, row_entries(samples.device) // (4 * bounds.widest), limits))
    return found[:, 0], -found[:, 1]


def _limits_on_patches(
    patches: Patches, ball: BallBounds, known: dict[int, BallCoupling], samples: Tensor, entries: Tensor
) -> tuple[Tensor, Tensor]:
    """The same for a picture, of all its channels at each place."""
    patch, local = patches

    def bound(own: BallBounds, rows: Tensor, places: Places) -> LowerBounds:
        rows = rows.expand(len(own.eps), *[-1] * (rows.ndim - 1))
        coupled = _couplings_on_patches(patch, known, places)
        return ascended_bounds(local, own, rows, couplings=coupled, steps=_STEPS_ON_PATCHES)[0]

    some, place = torch.unique(entries, return_inverse=True)
    size = row_entries(some.device) // (4 * local.graph.classes * local.widest * len(ball.eps))
    lower, upper = limits_on_patches(patch, ball, some, size, bound)
    return lower[samples, place], upper[samples, place]


def _couplings_on_patches(
    patch: PatchNetwork, known: dict[int, BallCoupling], places: Places
) -> dict[int, BallCoupling]:
    found = {}
    for at, operation in enumerate(patch.graph.operations):
        coupling = known.get(patch.origins[at][0])
        if coupling is None or not isinstance(operation, CurveOf):
            continue
        weight, centre = (gathered(patch, at, part, places) for part in (coupling.weight, coupling.centre))
        open_ended = (weight > 0).flatten(1).sum(1).to(weight)
        square = coupling.square.repeat_interleave(len(places[0]))
        found[at] = BallCoupling(weight, centre, torch.minimum(square, open_ended * ROUNDED))
    return found
