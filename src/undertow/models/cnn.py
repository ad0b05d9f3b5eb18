"""Convolutional networks that stay homogeneous: a bias in the first layer only (Lyu & Li 2020, §5 and App. L)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from undertow.core.errors import ConfigError
from undertow.core.losses import Loss
from undertow.core.sections import Count
from undertow.models.initialisation import allocated, draw_truncated_he
from undertow.models.model_section import ReadOutModel

if TYPE_CHECKING:
    from undertow.data.dataset import Dataset

__all__ = ["Bias", "CnnModel", "check_image", "cnn"]

Bias = Literal["first", "none", "all"]


class CnnModel(ReadOutModel):
    """conv5×5×32 → pool → conv3×3×64 → pool → fc1024 → read-out, with ReLU, of order 4; see :func:`cnn`.

    ``channels``, ``kernels`` and ``dense`` make it smaller: (8, 16) channels and 32 units suit 8×8 digits.
    """

    name: Literal["cnn"]
    image: tuple[Count, Count, Count] = (1, 28, 28)
    channels: tuple[Count, ...] = (32, 64)
    kernels: tuple[Count, ...] = (5, 3)
    dense: tuple[Count, ...] = (1024,)
    bias: Bias = "first"

    def build(
        self, dataset: Dataset, *, loss: Loss, dtype: torch.dtype, generator: torch.Generator
    ) -> nn.Module:
        check_image(self.image, dataset)
        return cnn(
            image=self.image,
            stages=[(each,) for each in self.channels],
            kernels=self.kernels,
            dense=self.dense,
            outputs=self.outputs_for(dataset, loss),
            bias=self.bias,
            dtype=dtype,
            generator=generator,
        )

    def least_weights(self, inputs: int) -> int:  # noqa: ARG002
        # A setting may ask for an image that pools away; that is refused where the network is built.
        area = max(1, self.image[1] >> len(self.channels)) * max(1, self.image[2] >> len(self.channels))
        return area * self.channels[-1] * (self.dense[0] if self.dense else 1) if self.channels else 1


def check_image(image: Sequence[int], dataset: Dataset) -> None:
    """A ``ConfigError`` where the data are not images of this shape."""
    size = dataset.x[0].numel()
    if math.prod(image) != size:
        shape = "×".join(map(str, image))
        raise ConfigError(
            f"model.image is {shape}, but each input has {size} numbers: give the images' shape."
        )


def cnn(
    *,
    image: Sequence[int],
    stages: Sequence[Sequence[int]],
    kernels: Sequence[int],
    dense: Sequence[int],
    outputs: int,
    bias: Bias = "first",
    dtype: torch.dtype = torch.float32,
    generator: torch.Generator,
) -> nn.Sequential:
    """Stages of convolutions ("same" padding) and ReLUs, each ended by max-pooling over 2×2, then dense layers.

    Children: image (rows to pictures), conv1, activation1, …, pool1, …, flatten, dense1, …, output. With the bias in
    the first layer only (or none) the network is homogeneous in its weights, of the order that it has layers.
    Weights are He-normal truncated at two standard deviations, biases 0.

    Args:
        image: (channels, height, width) of the pictures; inputs are flat rows.
        stages: For each stage the channels of its convolutions.
        kernels: For each stage the (odd) size of its kernels.
        dense: Widths of the fully connected layers before the read-out.
        outputs: Of the read-out.
        bias: Which layers have one; "all" is for comparison, and not homogeneous.
        dtype: Of the weights.
        generator: A CPU generator.

    >>> net = cnn(image=(1, 8, 8), stages=[(4,), (6,)], kernels=(5, 3), dense=(16,), outputs=3,
    ...           generator=torch.Generator().manual_seed(0))
    >>> net(torch.zeros(2, 64)).shape, [name for name, _ in net.named_parameters()]
    (torch.Size([2, 3]), ['conv1.weight', 'conv1.bias', 'conv2.weight', 'dense1.weight', 'output.weight'])
    """
    _check_sizes(image, stages, kernels, bias)
    modules: OrderedDict[str, nn.Module] = OrderedDict(image=nn.Unflatten(1, tuple(image)))
    layers, before = 0, image[0]
    for stage, (channels, kernel) in enumerate(zip(stages, kernels, strict=True), start=1):
        for size in channels:
            layers += 1
            biased = bias == "all" or (bias == "first" and layers == 1)
            modules[f"conv{layers}"] = nn.Conv2d(
                before, size, kernel, padding=kernel // 2, bias=biased, dtype=dtype, device="meta"
            )
            modules[f"activation{layers}"] = nn.ReLU()
            before = size
        modules[f"pool{stage}"] = nn.MaxPool2d(2)
    modules["flatten"] = nn.Flatten()
    before *= (image[1] >> len(stages)) * (image[2] >> len(stages))
    for depth, width in enumerate(dense, start=1):
        first = bias == "first" and layers == 0
        modules[f"dense{depth}"] = nn.Linear(
            before, width, bias=bias == "all" or first, dtype=dtype, device="meta"
        )
        layers += 1
        modules[f"activation{layers}"] = nn.ReLU()
        before = width
    modules["output"] = nn.Linear(before, outputs, bias=bias == "all", dtype=dtype, device="meta")
    net = allocated(nn.Sequential(modules))
    _draw(net, generator)
    return net


def _check_sizes(
    image: Sequence[int], stages: Sequence[Sequence[int]], kernels: Sequence[int], bias: str
) -> None:
    if len(kernels) != len(stages) or any(kernel % 2 == 0 for kernel in kernels):
        raise ConfigError(
            f"kernels = {tuple(kernels)} must be one odd size for each of the {len(stages)} stages."
        )
    if len(image) != 3 or min(image[1:]) >> len(stages) < 1:
        raise ConfigError(
            f"{len(stages)} stages halve a picture of {tuple(image)} away: use fewer channels or a larger image."
        )
    if bias not in ("first", "none", "all"):
        raise ConfigError(f"bias = {bias!r} is unknown: choose 'first', 'none' or 'all'.")


def _draw(net: nn.Module, generator: torch.Generator) -> None:
    """Weights in the order of the layers, from one generator; biases are zero."""
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                module.weight.copy_(draw_truncated_he(tuple(module.weight.shape), generator=generator))
                if module.bias is not None:
                    module.bias.zero_()
