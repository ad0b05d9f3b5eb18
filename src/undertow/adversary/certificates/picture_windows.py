"""The part of a picture that each place of a later one depends on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from undertow.adversary.certificates.operations import SlidingWindows

__all__ = ["PictureWindow", "Places"]

Pair = tuple[int, int]
Places = tuple[Tensor, Tensor]
"""Lines and columns of the places that are meant, (P,) each."""


@dataclass(frozen=True)
class PictureWindow:
    """Of the place (i, j) the ``size`` entries from ``start`` + ``step``·(i, j) on; some may lie beside the picture."""

    start: Pair
    step: Pair
    size: Pair

    def before(self, windows: SlidingWindows) -> PictureWindow:
        """What sliding windows look at for these entries of their result.

        >>> one = PictureWindow((0, 0), (1, 1), (1, 1))
        >>> one.before(SlidingWindows((4, 4), (2, 2), (1, 1), (1, 1)))
        PictureWindow(start=(-1, -1), step=(2, 2), size=(4, 4))
        """
        parts = []
        for axis in range(2):
            stride = windows.stride[axis]
            reach = windows.dilation[axis] * (windows.size[axis] - 1) + 1
            parts.append(
                (
                    self.start[axis] * stride - windows.padding[axis],
                    self.step[axis] * stride,
                    (self.size[axis] - 1) * stride + reach,
                )
            )
        return PictureWindow(*((first, second) for first, second in zip(*parts, strict=True)))

    def joined(self, other: PictureWindow) -> PictureWindow | None:
        """The smallest window with both; None where they move by different steps."""
        if self.step != other.step:
            return None
        start = tuple(min(pair) for pair in zip(self.start, other.start, strict=True))
        stop = tuple(max(pair) for pair in zip(self._stop, other._stop, strict=True))
        size = (stop[0] - start[0], stop[1] - start[1])
        return PictureWindow((start[0], start[1]), self.step, size)

    @property
    def _stop(self) -> Pair:
        return self.start[0] + self.size[0], self.start[1] + self.size[1]

    def margins(self, picture: Pair, places: Pair) -> tuple[int, int, int, int]:
        """How far windows of any place reach beyond the picture: left, right, above, below."""
        found = []
        for axis in (1, 0):
            last = self.start[axis] + self.step[axis] * (places[axis] - 1) + self.size[axis]
            found += [max(0, -self.start[axis]), max(0, last - picture[axis])]
        return found[0], found[1], found[2], found[3]

    def gathered(self, picture: Tensor, grid: Pair, places: Places) -> Tensor:
        """The windows (B·P, …, h, w) of pictures (B, …, H, W) at these places of a grid, zero beside the picture.

        >>> picture = torch.arange(9.0).reshape(1, 3, 3)
        >>> centre = torch.tensor([1]), torch.tensor([1])
        >>> PictureWindow((-1, -1), (1, 1), (2, 2)).gathered(picture, (3, 3), centre)
        tensor([[[0., 1.],
                 [3., 4.]]])
        """
        height, width = int(picture.shape[-2]), int(picture.shape[-1])
        margins = self.margins((height, width), grid)
        padded = functional.pad(picture, margins) if any(margins) else picture
        for axis, (margin, place) in enumerate(((margins[2], places[0]), (margins[0], places[1]))):
            first = self.start[axis] + margin
            index = first + self.step[axis] * place.unsqueeze(1)
            index = index + torch.arange(self.size[axis], device=place.device)
            padded = (
                padded[..., index, :] if axis == 0 else self._columns(padded, index)
            )  # (…, P, h, W), then (…, P, h, w)
        found = padded.movedim(-3, 1)
        return found.flatten(0, 1)

    def _columns(self, lines: Tensor, index: Tensor) -> Tensor:
        """Of lines (…, P, h, W) the columns (P, w), place by place."""
        shape = (*lines.shape[:-1], self.size[1])
        return lines.gather(-1, index.unsqueeze(1).expand(shape))
