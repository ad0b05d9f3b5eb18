"""Convolution and BatchNorm as residual networks use them, written so that a GPU is kept busy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.overrides import has_torch_function_unary

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
        if _is_trained() and self._meets_one_pixel(input):
            rows, columns = _margins(self)
            values = nn.functional.linear(input.flatten(1), kernel[:, :, rows, columns])
            return values[..., None, None]
        # Who overrides what tensors do wants the weights as they are.
        if kernel.is_cuda and not has_torch_function_unary(input):
            kernel = kernel.contiguous(memory_format=torch.channels_last)
        pictures: Tensor = self._conv_forward(input, kernel, None)
        return pictures

    def _meets_one_pixel(self, input: Tensor) -> bool:
        """Whether pictures are one pixel, and what is made of them is one: of a kernel then one place counts.

        No layout of a single pixel tells channels last. For kernels of one pixel as well cuDNN takes the other for
        granted: on an H200 the gradients by five such kernels took half of a training step of ResNet-50 on pictures
        of 32×32.
        """
        places = zip(self.kernel_size, _margins(self), self.stride, strict=True)
        return tuple(input.shape[2:]) == (1, 1) and all(
            margin < size and (1 + 2 * margin - size) // step == 0 for size, margin, step in places
        )


def _margins(layer: nn.Conv2d) -> tuple[int, ...]:
    assert not isinstance(layer.padding, str), "this file builds convolutions with margins in pixels"
    return layer.padding


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
