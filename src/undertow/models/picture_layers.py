"""Convolution and BatchNorm as residual networks use them, written so that a GPU is kept busy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.overrides import has_torch_function_unary

from undertow.core.patches import patch_rows
from undertow.core.weight_gradients import wants_first_weight_gradients
from undertow.models.initialisation import allocated

__all__ = ["ChannelNorm", "Convolution", "convolution"]


class ChannelNorm(nn.BatchNorm2d):
    """BatchNorm; in eval mode written as what it then is, a scale and a shift of each channel.

    PyTorch's own kernels for that mode work on each channel by itself, which leaves most of a GPU idle where
    channels are few: a training step of a small network takes several times as long.

    >>> norm = ChannelNorm(3).eval()
    >>> x = torch.randn(2, 3, 4, 4)
    >>> torch.allclose(norm(x), nn.BatchNorm2d(3).eval()(x))
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        if self.training or self.running_var is None or self.running_mean is None:
            return super().forward(input)
        factor = torch.rsqrt(self.running_var + self.eps)
        if input.is_cuda and _is_trained():
            scaled: Tensor = _Scaled.apply(input, self.weight, self.bias, self.running_mean, factor)  # type: ignore[no-untyped-call]
            return scaled
        scale = self.weight * factor
        shift = self.bias - self.running_mean * scale
        return torch.addcmul(shift[:, None, None], input, scale[:, None, None])


def _is_trained() -> bool:
    """Whether derivatives by the weights are wanted, and not of code that is being compiled."""
    return wants_first_weight_gradients() and not torch.compiler.is_compiling()


class _Scaled(torch.autograd.Function):
    """w (x − m) f + b, whose gradients by w and b are sums over all pixels that one pass takes together."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, factor: Tensor
    ) -> Tensor:
        ctx.save_for_backward(input, weight, mean, factor)
        scale = weight * factor
        shift = bias - mean * scale
        return torch.addcmul(shift[:, None, None], input, scale[:, None, None])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        input, weight, mean, factor = ctx.saved_tensors
        cotangent = cotangent.contiguous(memory_format=torch.channels_last)
        sums = torch.batch_norm_backward_reduce(
            cotangent, input, mean, factor, weight, False, True, True
        )  # their names: what follows are Σ v and Σ v (x − m), and the gradients by weight and bias
        return cotangent * (weight * factor)[:, None, None], sums[2], sums[3], None, None


class Convolution(nn.Conv2d):
    """A convolution without bias; on a GPU with channels last, the layout its tensor cores read.

    Pictures then leave it in that layout too, which all that follows here can take. A network of someone else's may
    not: ``view`` refuses such a picture.
    """

    def forward(self, input: Tensor) -> Tensor:
        kernel = self.weight
        if _is_trained() and self._is_a_matrix(input):
            rows = nn.functional.linear(input.flatten(1), kernel.flatten(1))
            return rows[..., None, None]
        if kernel.is_cuda and not has_torch_function_unary(
            input
        ):  # who overrides it wants the weights as they are
            kernel = kernel.contiguous(memory_format=torch.channels_last)
            if _is_trained() and self._is_slow_to_differentiate(input):
                found: Tensor = _WeightsByPatches.apply(input, kernel, self.stride, self.padding)  # type: ignore[no-untyped-call]
                return found
        pictures: Tensor = self._conv_forward(input, kernel, None)
        return pictures

    def _is_a_matrix(self, input: Tensor) -> bool:
        """Whether kernel and pictures are one pixel each: no layout tells channels last, and cuDNN takes the slow one.

        Of ResNet-50's training step on pictures of 32×32, the gradients by five such kernels took more than half.
        """
        return self.kernel_size == (1, 1) and self.padding == (0, 0) and tuple(input.shape[2:]) == (1, 1)

    def _is_slow_to_differentiate(self, input: Tensor) -> bool:
        """Whether cuDNN's gradient by the weights, of those that repeat bit for bit, takes most of a training step.

        It does for strides, and for pictures of one pixel.
        """
        pixels = [
            (length + 2 * margin - size) // step + 1
            for length, margin, size, step in zip(
                input.shape[2:], _margins(self), self.kernel_size, self.stride, strict=True
            )
        ]
        few = pixels[0] * pixels[1] <= _FEW_PIXELS
        return max(self.kernel_size) > 1 and few and (max(self.stride) > 1 or pixels == [1, 1])


def _margins(layer: nn.Conv2d) -> tuple[int, ...]:
    assert not isinstance(layer.padding, str), "this file builds convolutions with margins in pixels"
    return layer.padding


_FEW_PIXELS = (
    16  # of what a convolution gives: patches of larger pictures take more memory than they save time
)


class _WeightsByPatches(torch.autograd.Function):
    """A convolution whose gradient by its weights is the product of patches with what comes back."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, kernel: Tensor, stride: tuple[int, int], padding: tuple[int, int]
    ) -> Tensor:
        ctx.save_for_backward(input, kernel)
        ctx.stride, ctx.padding = stride, padding
        return nn.functional.conv2d(input, kernel, None, stride, padding)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        input, kernel = ctx.saved_tensors
        settings = (ctx.stride, ctx.padding, (1, 1), False, (0, 0), 1)
        to_input = None
        if ctx.needs_input_grad[0]:
            to_input = torch.ops.aten.convolution_backward(
                cotangent, input, kernel, None, *settings, [True, False, False]
            )[0]
        size, (rows, columns) = kernel.shape[2:], ctx.padding
        patches = patch_rows(input, size, ctx.stride, ((rows, rows), (columns, columns)))
        by_patches = cotangent.permute(0, 2, 3, 1).flatten(0, 2).mT @ patches.flatten(0, 2)
        by_weight = by_patches.view(-1, *size, kernel.shape[1]).permute(0, 3, 1, 2)
        return to_input, by_weight, None, None


def convolution(
    inputs: int, outputs: int, *, size: int = 3, stride: int = 1, dtype: torch.dtype = torch.float32
) -> Convolution:
    """A convolution of odd ``size``, padded so that only ``stride`` makes a picture smaller; its weights are not drawn.

    >>> convolution(3, 8, size=7, stride=2).padding
    (3, 3)
    """
    # Made on the meta device: its weights are drawn later, from the generator, and not from the global state.
    options = {"stride": stride, "padding": size // 2, "bias": False, "dtype": dtype}
    layer = Convolution(inputs, outputs, size, **options, device="meta")  # type: ignore[arg-type]
    return allocated(layer)
