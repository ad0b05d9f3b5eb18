"""rows·W for a convolution W: the transposed convolution of rows, in float64.

On a CPU that is what autograd does for a convolution's input. On a GPU one product and a sum of overlapping windows are
three to eighteen times as fast as it (`docs/results`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["convolution_back"]


def convolution_back(rows: Tensor, weight: Tensor, shape: tuple[int, ...], options: list[Any]) -> Tensor:
    """rows·W (R, *shape) of a convolution for rows (R, 1, out, …): stride, padding, dilation, transposed, …, groups."""
    found: Tensor = _ConvolutionBack.apply(rows.flatten(0, 1), weight, shape, options)  # type: ignore[no-untyped-call]
    return found.reshape(len(rows), *shape)


class _ConvolutionBack(torch.autograd.Function):
    """The rows before a convolution; their derivative is that convolution, without what autograd adds to it."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, shape: tuple[int, ...], options: list[Any]) -> Tensor:
        ctx.weight, ctx.options = weight, options
        stride, padding, dilation, transposed, _, groups = options
        if rows.is_cuda and weight.ndim == 4 and not transposed and groups == 1:
            return _folded(rows, weight, (shape[-2], shape[-1]), stride, padding, dilation)
        like = rows.new_zeros(()).expand(len(rows), *shape[1:])
        found: Tensor = torch.ops.aten.convolution_backward(
            rows, like, weight, None, *options, [True, False, False]
        )[0]
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return torch.convolution(grads[0], ctx.weight, None, *ctx.options), None, None, None


def _folded(
    rows: Tensor, weight: Tensor, picture: tuple[int, int], stride: Any, padding: Any, dilation: Any
) -> Tensor:
    """What each row gives to every entry of its windows, and the sum over windows.

    >>> rows, weight = torch.randn(2, 3, 4, 4).double(), torch.randn(3, 2, 3, 3).double()
    >>> once = functional.conv_transpose2d(rows, weight, stride=2, padding=1, output_padding=1)
    >>> torch.allclose(_folded(rows, weight, (8, 8), (2, 2), (1, 1), (1, 1)), once)
    True
    """
    windows = weight.flatten(1).T @ rows.flatten(2)
    found: Tensor = functional.fold(
        windows, picture, tuple(weight.shape[2:]), dilation=dilation, padding=padding, stride=stride
    )
    return found
