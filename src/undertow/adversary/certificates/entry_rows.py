"""Rows ±e_j of single entries of a result, whose bounds are that entry's limits: all at once, or place by place."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.lower_bounds import LowerBounds
from undertow.adversary.certificates.patch_balls import patch_ball
from undertow.adversary.certificates.patch_networks import PatchNetwork
from undertow.adversary.certificates.picture_windows import Places
from undertow.adversary.certificates.row_budget import in_parts

__all__ = ["both_signs", "limits_of_entries", "limits_on_patches"]


def both_signs(some: Tensor, entries: int) -> Tensor:
    """Rows e_j, then −e_j, of these entries: (2n, entries).

    >>> both_signs(torch.tensor([1]), 3).tolist()
    [[0.0, 1.0, 0.0], [0.0, -1.0, 0.0]]
    """
    each = torch.arange(len(some), device=some.device)
    rows = torch.zeros(2, len(some), entries, dtype=torch.float64, device=some.device)
    rows[0, each, some], rows[1, each, some] = 1.0, -1.0
    return rows.flatten(0, 1)


def limits_of_entries(
    some: Tensor, shape: tuple[int, ...], size: int, bound: Callable[[Tensor], LowerBounds]
) -> tuple[Tensor, Tensor]:
    """Lower and upper limits (B, n) of these entries, ``size`` at a time, from bounds of rows (1, 2m, *shape)."""

    def limits(part: Tensor) -> Tensor:
        rows = both_signs(part, math.prod(shape)).reshape(1, 2 * len(part), *shape)
        return bound(rows).lower.reshape(-1, 2, len(part))

    found = torch.cat(in_parts(some, size, limits), 2)
    return found[:, 0], -found[:, 1]


def limits_on_patches(
    patch: PatchNetwork,
    ball: BallBounds,
    some: Tensor,
    size: int,
    bound: Callable[[BallBounds, Tensor, Places], LowerBounds],
) -> tuple[Tensor, Tensor]:
    """The same for entries of a picture, from bounds of all its channels at the places where one of them is.

    ``bound`` is given the balls (B·P) of patches at ``size`` places, the rows (1, 2·channels, …), and the places.
    """
    channels, samples, (height, width) = patch.graph.classes, len(ball.eps), patch.places
    rows = both_signs(torch.arange(channels, device=some.device), channels)
    rows = rows.reshape(1, 2 * channels, *patch.graph.operations[patch.graph.output].shape)
    found = ball.eps.new_zeros(samples, 2, channels, height * width)

    def write(part: Tensor) -> None:
        places = part // width, part % width
        lower = bound(patch_ball(patch, ball, places), rows, places).lower
        found[..., part] = lower.reshape(samples, len(part), 2, channels).permute(0, 2, 3, 1)

    in_parts(torch.unique(some % (height * width)), size, write)
    flat = found.flatten(2)[..., some]
    return flat[:, 0], -flat[:, 1]
