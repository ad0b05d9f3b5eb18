"""Convolutions as products of matrices: patches of pictures as rows, kernels as a matrix.

In float32 and float64 a GPU's convolutions run at a tenth of what its matrix products do. Pictures are taken with
channels last: neighbouring numbers of a row of patches are then neighbours in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["MatrixConvolution", "patch_rows"]


def patch_rows(
    pictures: Tensor, size: Sequence[int], stride: Sequence[int], margins: Sequence[tuple[int, int]]
) -> Tensor:
    """Every patch of pictures (N, C, H, W) as a row, (N, H′, W′, size₁·size₂·C), behind margins of zeros.

    A margin below zero cuts off.

    >>> rows = patch_rows(torch.arange(6.0).view(1, 1, 2, 3), (2, 2), (1, 1), ((0, 0), (0, 0)))
    >>> rows.view(2, 4).tolist()
    [[0.0, 1.0, 3.0, 4.0], [1.0, 2.0, 4.0, 5.0]]
    """
    last = pictures.permute(0, 2, 3, 1)
    (top, bottom), (left, right) = margins
    if any((top, bottom, left, right)):
        last = functional.pad(last, (0, 0, left, right, top, bottom))
    if tuple(size) == (1, 1):
        return last[:, :: stride[0], :: stride[1]]
    windows = last.unfold(1, size[0], stride[0]).unfold(2, size[1], stride[1])
    return windows.permute(0, 1, 2, 4, 5, 3).flatten(3)


@dataclass(frozen=True)
class MatrixConvolution:
    """x ↦ W ∗ x for pictures (N, C, H, W) of one size, and its transpose; W is (O, C, h, w), without groups.

    >>> layer = MatrixConvolution(torch.ones(1, 1, 2, 2), (1, 1), (0, 0), (2, 3))
    >>> layer(torch.arange(6.0).view(1, 1, 2, 3)).tolist()
    [[[[8.0, 12.0]]]]
    >>> layer.transposed(torch.tensor([[[[1.0, 2.0]]]])).tolist()
    [[[[1.0, 3.0, 2.0], [1.0, 3.0, 2.0]]]]
    """

    weight: Tensor
    stride: tuple[int, int]
    padding: tuple[int, int]
    picture: tuple[int, int]

    def __call__(self, pictures: Tensor) -> Tensor:
        rows = patch_rows(pictures, self._size, self.stride, self._margins)
        return (rows @ self._matrix).permute(0, 3, 1, 2)

    def transposed(self, cotangent: Tensor) -> Tensor:
        if self.stride == (1, 1):
            # A convolution with the kernel turned round, whose margins make up the size.
            given = cotangent.shape[2:]
            margins = [
                (self._size[axis] - 1 - before, self.picture[axis] + before - given[axis])
                for axis, (before, _) in enumerate(self._margins)
            ]
            rows = patch_rows(cotangent, self._size, (1, 1), margins)
            return (rows @ self._turned).permute(0, 3, 1, 2)
        last = cotangent.permute(0, 2, 3, 1)
        if self.weight.shape[2:] == (1, 1) and self.padding == (0, 0):
            found = last.new_zeros(len(last), *self.picture, self.weight.shape[1])
            found[:, :: self.stride[0], :: self.stride[1]] = last @ self.weight[:, :, 0, 0]
            return found.permute(0, 3, 1, 2)
        columns = (last.flatten(1, 2) @ self.weight.flatten(1)).mT.contiguous()
        found = functional.fold(
            columns, self.picture, self.weight.shape[2:], padding=self.padding, stride=self.stride
        )
        return found.contiguous(memory_format=torch.channels_last)

    @cached_property
    def _matrix(self) -> Tensor:
        return _as_matrix(self.weight[self._used])

    @cached_property
    def _turned(self) -> Tensor:
        return _as_matrix(self.weight[self._used].flip(2, 3).transpose(0, 1))

    @cached_property
    def _reach(self) -> list[tuple[int, int, int]]:
        """For each axis the first and the last row of the kernel that meets a picture at all, and how many patches."""
        found = []
        for size, step, margin, length in zip(
            self.weight.shape[2:], self.stride, self.padding, self.picture, strict=True
        ):
            count = (length + 2 * margin - size) // step + 1
            found.append((max(0, margin - (count - 1) * step), min(size - 1, length - 1 + margin), count))
        return found

    @property
    def _size(self) -> list[int]:
        return [last - first + 1 for first, last, _ in self._reach]

    @property
    def _used(self) -> tuple[slice, ...]:
        return (slice(None), slice(None), *(slice(first, last + 1) for first, last, _ in self._reach))

    @property
    def _margins(self) -> list[tuple[int, int]]:
        """Zeros before and after each axis, for the part of the kernel that is used."""
        found = []
        for (first, last, count), step, margin, length in zip(
            self._reach, self.stride, self.padding, self.picture, strict=True
        ):
            before = margin - first
            found.append((before, (count - 1) * step + last - first + 1 - before - length))
        return found


def _as_matrix(kernel: Tensor) -> Tensor:
    """(O, C, h, w) as h·w·C rows of O; of a kernel of one pixel, or with channels last, a view."""
    return kernel.permute(0, 2, 3, 1).flatten(1).mT
