"""What is known of a network on a ball, gathered for the patches that the neurons of a convolution see."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.member_batches import MemberBatch
from undertow.adversary.certificates.node_bounds import Chords, Relaxation
from undertow.adversary.certificates.operations import AffineMap, CurveOf, InsideOf, LargestOf
from undertow.adversary.certificates.patch_networks import PatchNetwork
from undertow.adversary.certificates.picture_windows import PictureWindow, Places
from undertow.adversary.certificates.relaxations import LinePair

__all__ = ["PatchMask", "gathered", "patch_ball", "patch_masks"]


@dataclass(frozen=True, eq=False)
class PatchMask:
    """Ones (B, 1, h, w) inside of the picture, zeros beside it."""

    keep: Tensor

    def taken(self, index: Tensor) -> PatchMask:
        """The masks of these samples."""
        return PatchMask(self.keep[index])

    def backward(self, rows: Tensor, *, sized: bool = True) -> tuple[Tensor, float, float]:  # noqa: ARG002
        """The rows inside, and no constant."""
        return (
            rows * self.keep.reshape(len(self.keep), *[1] * (rows.ndim - 3), *self.keep.shape[-2:]),
            0.0,
            0.0,
        )


def patch_ball(patch: PatchNetwork, ball: BallBounds, places: Places) -> BallBounds:
    """The balls (B·P) of the patches at these places, samples first."""
    count = len(places[0])
    each = torch.arange(len(ball.eps), device=ball.eps.device).repeat_interleave(count)
    batch = None if ball.batch is None else MemberBatch.of(ball.batch.who[each])
    found = BallBounds(gathered(patch, 0, ball.x, places), ball.eps[each], batch)
    curved = {op.inputs[0] for op in patch.graph.operations if isinstance(op, CurveOf)}
    for local, operation in enumerate(patch.graph.operations):
        index, window = patch.origins[local]
        if not (isinstance(operation, AffineMap) and operation.rearranges):
            found.sizes[local] = gathered(patch, local, ball.sizes[index], places)
        if local in curved:
            low, high = (gathered(patch, local, side, places) for side in ball.limits[index])
            found.limits[local] = low, high
            found.values[local] = gathered(patch, local, ball.values[index], places)
        if isinstance(operation, InsideOf):
            found.relaxations[local] = _mask(patch, index, window, places, len(ball.eps), ball.x)
        elif index in ball.relaxations and not isinstance(operation, AffineMap):
            found.relaxations[local] = _relaxation(patch, local, ball.relaxations[index], places)
    return found


def patch_masks(patch: PatchNetwork, places: Places, like: Tensor) -> BallBounds:
    """Patches of which only is known what of them lies inside of the picture: enough where everything is affine."""
    found = BallBounds(like, like)
    for local, operation in enumerate(patch.graph.operations):
        if isinstance(operation, InsideOf):
            found.relaxations[local] = _mask(patch, *patch.origins[local], places, 1, like)
    return found


def gathered(patch: PatchNetwork, local: int, values: Tensor, places: Places) -> Tensor:
    """The windows (B·P, 1, C, h, w) of one operation's values (B, …)."""
    index, window = patch.origins[local]
    picture = values.reshape(len(values), *patch.pictures[index])
    return window.gathered(picture, patch.places, places).unsqueeze(1)


def _mask(
    patch: PatchNetwork, index: int, window: PictureWindow, places: Places, samples: int, like: Tensor
) -> PatchMask:
    ones = torch.ones(1, *patch.pictures[index][1:], dtype=like.dtype, device=like.device)
    return PatchMask(window.gathered(ones, patch.places, places).unsqueeze(1).repeat(samples, 1, 1, 1))


def _relaxation(patch: PatchNetwork, local: int, relaxation: Relaxation, places: Places) -> Relaxation:
    if isinstance(relaxation, LinePair):
        return LinePair(*(gathered(patch, local, part, places) for part in vars(relaxation).values()))
    assert isinstance(relaxation, Chords)
    operation = patch.graph.operations[local]
    assert isinstance(operation, LargestOf)
    weights = [gathered(patch, local, part, places) for part in relaxation.weight.unbind(-1)]
    chosen, offset, size = (
        gathered(patch, local, part, places).flatten(1)
        for part in (relaxation.chosen, relaxation.offset, relaxation.size)
    )
    return Chords(
        chosen=chosen,
        weight=torch.stack(weights, -1).flatten(1, -2),
        offset=offset,
        receivers=operation.receivers,
        size=size,
    )
