"""VGG's convolutions with one read-out (Simonyan & Zisserman 2015), homogeneous as Lyu & Li (2020) have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import nn

from undertow.core.errors import ConfigError
from undertow.core.losses import Loss
from undertow.core.sections import Count
from undertow.models.cnn import Bias, check_image, cnn
from undertow.models.model_section import ReadOutModel

if TYPE_CHECKING:
    from undertow.data.dataset import Dataset

__all__ = ["Vgg11Model", "Vgg16Model", "vgg"]

_CONVOLUTIONS = {11: (1, 1, 2, 2, 2), 16: (2, 2, 3, 3, 3)}


class _VggModel(ReadOutModel):
    """What both depths share."""

    DEPTH: ClassVar[int]
    image: tuple[Count, Count, Count] = (3, 32, 32)
    width: Count = 64

    def build(
        self, dataset: Dataset, *, loss: Loss, dtype: torch.dtype, generator: torch.Generator
    ) -> nn.Module:
        check_image(self.image, dataset)
        return vgg(
            self.DEPTH,
            image=self.image,
            width=self.width,
            outputs=self.outputs_for(dataset, loss),
            dtype=dtype,
            generator=generator,
        )

    def least_weights(self, inputs: int) -> int:  # noqa: ARG002
        return 9 * 3 * (8 * self.width) ** 2


class Vgg16Model(_VggModel):
    """13 convolutions and one fully connected layer, a bias in the first layer only; see :func:`vgg`."""

    DEPTH: ClassVar[int] = 16
    name: Literal["vgg16"]


class Vgg11Model(_VggModel):
    """8 convolutions and one fully connected layer, a bias in the first layer only; see :func:`vgg`."""

    DEPTH: ClassVar[int] = 11
    name: Literal["vgg11"]


def vgg(
    depth: int = 16,
    *,
    image: tuple[int, int, int] = (3, 32, 32),
    width: int = 64,
    outputs: int,
    bias: Bias = "first",
    dtype: torch.dtype = torch.float32,
    generator: torch.Generator,
) -> nn.Sequential:
    """Five stages of convolutions 3×3 with w, 2w, 4w, 8w, 8w channels, each pooled, and a read-out.

    ``depth`` 16 has 2, 2, 3, 3, 3 of them, 11 has 1, 1, 2, 2, 2; w = 64 is VGG. Without its dense layers and with a
    bias in the first layer only (or none) the network is homogeneous of order 14, or 9. Inputs are flat rows.

    >>> net = vgg(16, width=2, outputs=10, generator=torch.Generator().manual_seed(0))
    >>> len(list(net.parameters())), net(torch.zeros(1, 3 * 32 * 32)).shape
    (15, torch.Size([1, 10]))
    """
    if width < 1:
        raise ConfigError(f"width = {width} is not a positive number of channels.")
    if depth not in _CONVOLUTIONS:
        raise ConfigError(f"depth = {depth} is none of VGG's here: choose 11 or 16.")
    sizes = (width, 2 * width, 4 * width, 8 * width, 8 * width)
    stages = [(size,) * count for size, count in zip(sizes, _CONVOLUTIONS[depth], strict=True)]
    return cnn(
        image=image,
        stages=stages,
        kernels=(3,) * len(stages),
        dense=(),
        outputs=outputs,
        bias=bias,
        dtype=dtype,
        generator=generator,
    )
