"""Clean and adversarial images side by side, as one array."""

from __future__ import annotations

import torch
from torch import Tensor

from undertow.core.errors import InputError

__all__ = ["pairs_grid"]


def pairs_grid(
    x: Tensor, examples: Tensor, *, bounds: tuple[float, float] = (0.0, 1.0), columns: int = 8, gap: int = 1
) -> Tensor:
    """A picture (C, height, width) in [0, 1]: per column a clean image, its example, and their difference.

    x and examples are (N, C, H, W) or (N, H, W). The difference is drawn around grey and stretched, each
    one to its own largest entry, so that a small perturbation can be seen.

    >>> clean, moved = torch.zeros(2, 1, 4, 4), torch.ones(2, 1, 4, 4)
    >>> pairs_grid(clean, moved, columns=2).shape  # 3 rows, 2 columns, gaps of 1
    torch.Size([1, 14, 9])
    """
    if x.shape != examples.shape or x.ndim not in (3, 4):
        raise InputError(
            f"x {tuple(x.shape)} and examples {tuple(examples.shape)} must be images of one shape, "
            "(N, C, H, W) or (N, H, W)"
        )
    clean, moved = (v.detach().reshape(len(x), -1, *x.shape[-2:])[:columns] for v in (x, examples))
    lower, upper = bounds
    clean, moved = ((v.clamp(lower, upper) - lower) / (upper - lower) for v in (clean, moved))
    difference = moved - clean
    largest = difference.abs().amax((1, 2, 3), keepdim=True)
    stretched = 0.5 + 0.5 * difference / torch.where(largest > 0, largest, 1.0)
    rows = [_side_by_side(images, gap) for images in (clean, moved, stretched)]
    return _side_by_side(torch.stack([row.mT for row in rows]), gap).mT


def _side_by_side(images: Tensor, gap: int) -> Tensor:
    """(n, C, H, W) → (C, H, n·W + (n − 1)·gap), white between."""
    count, channels, height, width = images.shape
    canvas = images.new_ones(channels, height, count * width + (count - 1) * gap)
    for index, image in enumerate(images):
        canvas[:, :, index * (width + gap) : index * (width + gap) + width] = image
    return canvas
