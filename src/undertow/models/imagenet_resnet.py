"""ResNet-18, ResNet-50 and WRN-50-2 with ImageNet's stem (He et al. 2016; Zagoruyko & Komodakis 2016).

Pictures of any size go through them. Those of CIFAR, 32×32, are 8×8 behind the stem and a single pixel behind the last
stage: there the pooling gives what it is given.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from undertow.core.errors import ConfigError, nearest
from undertow.core.losses import Loss
from undertow.core.sections import Count, NonNegative
from undertow.models.cnn import check_image
from undertow.models.initialisation import draw_normal, draw_uniform, empty_linear
from undertow.models.model_section import ReadOutModel
from undertow.models.picture_layers import ChannelNorm, convolution

if TYPE_CHECKING:
    from undertow.data.dataset import Dataset

__all__ = ["ImageNetResNetModel", "ProjectedBlock", "imagenet_resnet"]

Architecture = Literal["resnet-10", "resnet-18", "resnet-50", "wrn-10-2", "wrn-50-2"]


@dataclass(frozen=True)
class _Shape:
    """How many blocks a stage has; of convolutions 1×1, 3×3, 1×1 whose inner ones are so wide, or of two 3×3."""

    blocks: tuple[int, int, int, int]
    bottleneck: bool
    wider: int = 1

    @property
    def expansion(self) -> int:
        return 4 if self.bottleneck else 1


_SHAPES: dict[str, _Shape] = {
    "resnet-10": _Shape((1, 1, 1, 1), bottleneck=False),
    "resnet-18": _Shape((2, 2, 2, 2), bottleneck=False),
    "resnet-50": _Shape((3, 4, 6, 3), bottleneck=True),
    "wrn-10-2": _Shape((1, 1, 1, 1), bottleneck=False, wider=2),
    "wrn-50-2": _Shape((3, 4, 6, 3), bottleneck=True, wider=2),
}


class ImageNetResNetModel(ReadOutModel):
    """ResNet-50 or one of its family in train mode: steps normalise by their batch; see :func:`imagenet_resnet`."""

    name: Literal["imagenet-resnet"]
    architecture: Architecture = "resnet-50"
    image: tuple[Count, Count, Count] = (3, 32, 32)
    width: Count = 64
    residual_start: NonNegative = 0.0

    def build(
        self, dataset: Dataset, *, loss: Loss, dtype: torch.dtype, generator: torch.Generator
    ) -> nn.Module:
        check_image(self.image, dataset)
        return imagenet_resnet(
            self.architecture,
            image=self.image,
            width=self.width,
            residual_start=self.residual_start,
            outputs=self.outputs_for(dataset, loss),
            dtype=dtype,
            generator=generator,
        )

    def least_weights(self, inputs: int) -> int:  # noqa: ARG002
        return 9 * 2 * (8 * self.width) ** 2


class ProjectedBlock(nn.Module):
    """x ↦ σ(Px + F(x)): convolutions F with BatchNorm, ReLU between them; P is x, or a 1×1 convolution and BatchNorm.

    ``last`` is the BatchNorm that ends F: its scale decides how much of F the block starts with.
    """

    def __init__(self, inputs: int, planes: int, *, shape: _Shape, stride: int, dtype: torch.dtype) -> None:
        super().__init__()
        outputs, inner = planes * shape.expansion, planes * shape.wider
        sizes = [(inputs, inner, 1, 1), (inner, inner, 3, stride), (inner, outputs, 1, 1)]
        if not shape.bottleneck:
            sizes = [(inputs, inner, 3, stride), (inner, outputs, 3, 1)]
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for place, (before, after, size, step) in enumerate(sizes, start=1):
            layers[f"conv{place}"] = convolution(before, after, size=size, stride=step, dtype=dtype)
            layers[f"bn{place}"] = ChannelNorm(after, dtype=dtype)
            if place < len(sizes):
                layers[f"act{place}"] = nn.ReLU()
        self.residual = nn.Sequential(layers)
        self.shortcut = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.shortcut.append(convolution(inputs, outputs, size=1, stride=stride, dtype=dtype))
            self.shortcut.append(ChannelNorm(outputs, dtype=dtype))
        self.act = nn.ReLU()

    @property
    def last(self) -> ChannelNorm:
        norm = self.residual[-1]
        assert isinstance(norm, ChannelNorm)
        return norm

    def forward(self, x: Tensor) -> Tensor:
        joined: Tensor = self.act(self.residual(x) + self.shortcut(x))
        return joined


def imagenet_resnet(
    architecture: str = "resnet-50",
    *,
    image: tuple[int, int, int] = (3, 32, 32),
    width: int = 64,
    residual_start: float = 0.0,
    outputs: int = 10,
    dtype: torch.dtype = torch.float32,
    generator: torch.Generator,
) -> nn.Sequential:
    """Ten modules in a row, conv1, bn1, act, maxpool, layer1 … layer4, pool, fc, behind ``image`` (rows to pictures).

    In train mode: call ``eval()`` before measuring. Convolutions start normal with variance 2/(outputs · size²), the
    read-out uniform within ±1/√inputs, as PyTorch's packages of such networks do.

    Args:
        architecture: "resnet-18", "resnet-50" or "wrn-50-2"; "resnet-10" and "wrn-10-2" have one block in each stage.
        image: (channels, height, width) of the pictures; inputs are flat rows.
        width: Channels of the stem, 64 in the papers; all others are multiples of it.
        residual_start: The scale that the last BatchNorm of every block starts with. At 0, as timm has it (Goyal et al.
            2017), a block starts as its shortcut; at 1 (torchvision) with all of its convolutions.
        outputs: Of the read-out.
        dtype: Of the weights.
        generator: A CPU generator.

    >>> net = imagenet_resnet("resnet-18", width=2, generator=torch.Generator().manual_seed(0))
    >>> net.eval()(torch.zeros(2, 3 * 32 * 32)).shape, [name for name, _ in net.named_children()][-3:]
    (torch.Size([2, 10]), ['layer4', 'pool', 'fc'])
    """
    if architecture not in _SHAPES:
        raise ConfigError(f"there is no architecture {architecture!r}: {nearest(architecture, _SHAPES)}")
    if min(*image, width, outputs) < 1:
        raise ConfigError(f"image = {image}, width = {width} and outputs = {outputs} must be positive.")
    shape = _SHAPES[architecture]
    modules: OrderedDict[str, nn.Module] = OrderedDict(image=nn.Unflatten(1, image))
    modules["conv1"] = convolution(image[0], width, size=7, stride=2, dtype=dtype)
    modules["bn1"] = ChannelNorm(width, dtype=dtype)
    modules["act"], modules["maxpool"] = nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)
    before = width
    for stage, blocks in enumerate(shape.blocks):
        planes, row = width << stage, []
        for index in range(blocks):
            stride = 2 if stage and not index else 1
            row.append(ProjectedBlock(before, planes, shape=shape, stride=stride, dtype=dtype))
            before = planes * shape.expansion
        modules[f"layer{stage + 1}"] = nn.Sequential(*row)
    modules["pool"] = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    modules["fc"] = empty_linear(before, outputs, bias=True, dtype=dtype)
    net = nn.Sequential(modules)
    _draw(net, residual_start, generator)
    return net


@torch.no_grad()
def _draw(net: nn.Module, residual_start: float, generator: torch.Generator) -> None:
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            fan_out = module.out_channels * module.weight[0, 0].numel()
            drawn = draw_normal(tuple(module.weight.shape), std=math.sqrt(2 / fan_out), generator=generator)
            module.weight.copy_(drawn)
        elif isinstance(module, nn.Linear):
            for tensor in (module.weight, module.bias):
                std = 1 / math.sqrt(3 * module.in_features)
                tensor.copy_(draw_uniform(tuple(tensor.shape), std=std, generator=generator))
        elif isinstance(module, ProjectedBlock):
            module.last.weight.fill_(residual_start)
