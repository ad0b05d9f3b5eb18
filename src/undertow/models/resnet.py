"""Small residual networks for images of CIFAR's size (He et al. 2016, §4.2)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from undertow.core.errors import ConfigError
from undertow.core.losses import Loss
from undertow.core.sections import Count
from undertow.models.initialisation import draw_normal
from undertow.models.model_section import ReadOutModel
from undertow.models.picture_layers import ChannelNorm, convolution

if TYPE_CHECKING:
    from undertow.data.dataset import Dataset

__all__ = ["ResNetModel", "ResidualBlock", "resnet"]


class ResNetModel(ReadOutModel):
    """A small residual network with BatchNorm's statistics fixed at their start; see :func:`resnet`."""

    name: Literal["resnet"]
    image: tuple[Count, Count, Count]
    channels: tuple[Count, ...] = (16, 32, 64)
    blocks: Count = 1

    def build(
        self, dataset: Dataset, *, loss: Loss, dtype: torch.dtype, generator: torch.Generator
    ) -> nn.Module:
        size = dataset.x[0].numel()
        if math.prod(self.image) != size:
            shape = "×".join(map(str, self.image))
            raise ConfigError(
                f"model.image is {shape}, but each input has {size} numbers: give the images' shape."
            )
        return resnet(
            image=self.image,
            channels=self.channels,
            blocks=self.blocks,
            outputs=self.outputs_for(dataset, loss),
            dtype=dtype,
            generator=generator,
        ).eval()


class ResidualBlock(nn.Module):
    """x ↦ σ(x' + B₂C₂σ(B₁C₁x)): two 3×3 convolutions with BatchNorm, and a shortcut x'.

    Where the shape changes, the shortcut takes every second pixel and fills new channels with zeros (He's
    option A), so that it has no parameters.
    """

    def __init__(self, inputs: int, channels: int, *, stride: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.stride, self.more = stride, channels - inputs
        self.conv1 = convolution(inputs, channels, stride=stride, dtype=dtype)
        self.norm1 = ChannelNorm(channels, dtype=dtype)
        self.conv2 = convolution(channels, channels, dtype=dtype)
        self.norm2 = ChannelNorm(channels, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        out = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        shortcut = nn.functional.pad(x[..., :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more))
        return torch.relu(out + shortcut)


def resnet(
    *,
    image: Sequence[int],
    channels: Sequence[int] = (16, 32, 64),
    blocks: int = 1,
    outputs: int,
    dtype: torch.dtype = torch.float32,
    generator: torch.Generator,
) -> nn.Sequential:
    """ResNet of depth 2·blocks·len(channels) + 2 on flat rows or images (C, H, W), in train mode.

    Children: image (rows to pictures), stem, block1 …, pool, output. Each stage but the first halves the
    picture. Weights are He-normal; the last BatchNorm of a block starts with scale 0, so that every block starts
    as its shortcut (Goyal et al. 2017): this also trains in eval mode, where BatchNorm is a scale and a shift.
    In train mode it uses batch statistics: call ``eval()`` before measuring. Features are what ``pool`` gives,
    channels[-1] numbers.

    >>> net = resnet(image=(1, 8, 8), channels=(4, 8), outputs=3, generator=torch.Generator().manual_seed(0))
    >>> net.eval()(torch.zeros(2, 64)).shape, [name for name, _ in net.named_children()]
    (torch.Size([2, 3]), ['image', 'stem', 'block1', 'block2', 'pool', 'output'])
    """
    if len(image) != 3 or min(*image, *channels, blocks, outputs) < 1:
        raise ConfigError(
            f"image = {tuple(image)} must be (channels, height, width), and every size positive."
        )
    height, width = image[1] >> (len(channels) - 1), image[2] >> (len(channels) - 1)
    if min(height, width) < 1:
        raise ConfigError(
            f"{len(channels)} stages halve a picture of {image[1]}×{image[2]} away: use fewer channels."
        )
    stem = nn.Sequential(
        convolution(image[0], channels[0], dtype=dtype),
        ChannelNorm(channels[0], dtype=dtype),
        nn.ReLU(),
    )
    modules: OrderedDict[str, nn.Module] = OrderedDict(image=nn.Unflatten(1, tuple(image)), stem=stem)
    before, count = channels[0], 0
    for stage, size in enumerate(channels):
        for index in range(blocks):
            count += 1
            stride = 2 if stage and not index else 1
            modules[f"block{count}"] = ResidualBlock(before, size, stride=stride, dtype=dtype)
            before = size
    modules["pool"] = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    modules["output"] = nn.Linear(before, outputs, dtype=dtype)
    net = nn.Sequential(modules)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                std = math.sqrt(2 / module.weight[0].numel())
                module.weight.copy_(draw_normal(tuple(module.weight.shape), std=std, generator=generator))
                if module.bias is not None:
                    module.bias.zero_()
            elif isinstance(module, ResidualBlock):
                module.norm2.weight.zero_()
    return net
