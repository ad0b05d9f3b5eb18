"""VGG16's convolutions with one read-out, homogeneous of order 14 (Simonyan & Zisserman 2015; Lyu & Li 2020)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from undertow.core.errors import ConfigError
from undertow.core.losses import Loss
from undertow.core.sections import Count
from undertow.models.cnn import check_image, cnn
from undertow.models.model_section import ReadOutModel

if TYPE_CHECKING:
    from undertow.data.dataset import Dataset

__all__ = ["Vgg16Model", "vgg16"]

_CONVOLUTIONS = (2, 2, 3, 3, 3)


class Vgg16Model(ReadOutModel):
    """13 convolutions and one fully connected layer, a bias in the first layer only; see :func:`vgg16`."""

    name: Literal["vgg16"]
    image: tuple[Count, Count, Count] = (3, 32, 32)
    width: Count = 64

    def build(
        self, dataset: Dataset, *, loss: Loss, dtype: torch.dtype, generator: torch.Generator
    ) -> nn.Module:
        check_image(self.image, dataset)
        return vgg16(
            image=self.image,
            width=self.width,
            outputs=self.outputs_for(dataset, loss),
            dtype=dtype,
            generator=generator,
        )

    def least_weights(self, inputs: int) -> int:  # noqa: ARG002
        return 9 * 5 * (8 * self.width) ** 2


def vgg16(
    *,
    image: tuple[int, int, int] = (3, 32, 32),
    width: int = 64,
    outputs: int,
    dtype: torch.dtype = torch.float32,
    generator: torch.Generator,
) -> nn.Sequential:
    """Five stages of 2, 2, 3, 3, 3 convolutions 3×3 with w, 2w, 4w, 8w, 8w channels, each pooled, and a read-out.

    w = 64 is VGG16. Without its dense layers and with a bias in the first layer only the network is homogeneous
    of order 14. Inputs are flat rows.

    >>> net = vgg16(width=2, outputs=10, generator=torch.Generator().manual_seed(0))
    >>> len(list(net.parameters())), net(torch.zeros(1, 3 * 32 * 32)).shape
    (15, torch.Size([1, 10]))
    """
    if width < 1:
        raise ConfigError(f"width = {width} is not a positive number of channels.")
    sizes = (width, 2 * width, 4 * width, 8 * width, 8 * width)
    stages = [(size,) * count for size, count in zip(sizes, _CONVOLUTIONS, strict=True)]
    return cnn(
        image=image,
        stages=stages,
        kernels=(3,) * len(stages),
        dense=(),
        outputs=outputs,
        dtype=dtype,
        generator=generator,
    )
