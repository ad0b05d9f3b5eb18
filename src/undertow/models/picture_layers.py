"""Convolution and BatchNorm as residual networks use them, written so that a GPU is kept busy."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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
        scale = self.weight * torch.rsqrt(self.running_var + self.eps)
        shift = self.bias - self.running_mean * scale
        return torch.addcmul(shift[:, None, None], input, scale[:, None, None])


class Convolution(nn.Conv2d):
    """A convolution without bias; on a GPU with channels last, the layout its tensor cores read.

    Pictures then leave it in that layout too, which all that follows here can take. A network of someone else's may
    not: ``view`` refuses such a picture.
    """

    def forward(self, input: Tensor) -> Tensor:
        kernel = self.weight
        if kernel.is_cuda:
            kernel = kernel.contiguous(memory_format=torch.channels_last)
        pictures: Tensor = self._conv_forward(input, kernel, None)
        return pictures


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
