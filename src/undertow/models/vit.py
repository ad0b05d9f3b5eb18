"""A small vision transformer: patches, a few blocks of attention and an MLP, a mean over patches, a read-out."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from undertow.core.errors import ConfigError
from undertow.core.losses import Loss
from undertow.core.sections import Count
from undertow.models.cnn import check_image
from undertow.models.initialisation import draw_normal, empty_linear
from undertow.models.model_section import ReadOutModel

if TYPE_CHECKING:
    from undertow.data.dataset import Dataset

__all__ = ["TransformerBlock", "VisionTransformerModel", "vision_transformer"]


class VisionTransformerModel(ReadOutModel):
    """A small vision transformer; see :func:`vision_transformer`."""

    name: Literal["vision-transformer"]
    image: tuple[Count, Count, Count] = (3, 32, 32)
    patch: Count = 4
    width: Count = 192
    heads: Count = 3
    blocks: Count = 6

    def build(
        self, dataset: Dataset, *, loss: Loss, dtype: torch.dtype, generator: torch.Generator
    ) -> nn.Module:
        check_image(self.image, dataset)
        return vision_transformer(
            image=self.image,
            patch=self.patch,
            width=self.width,
            heads=self.heads,
            blocks=self.blocks,
            outputs=self.outputs_for(dataset, loss),
            dtype=dtype,
            generator=generator,
        )

    def least_weights(self, inputs: int) -> int:  # noqa: ARG002
        return 12 * self.blocks * self.width**2


class _Patches(nn.Module):
    """A picture (N, C, H, W) as a row of patches, each mapped to ``width`` numbers, plus what tells its place."""

    def __init__(self, image: tuple[int, int, int], patch: int, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.patch = patch
        count = (image[1] // patch) * (image[2] // patch)
        self.embed = empty_linear(image[0] * patch * patch, width, bias=True, dtype=dtype)
        self.place = nn.Parameter(torch.empty(count, width, dtype=dtype))

    def forward(self, pictures: Tensor) -> Tensor:
        patches = nn.functional.unfold(pictures, self.patch, stride=self.patch).mT
        rows: Tensor = self.embed(patches)
        return rows + self.place


class _Attention(nn.Module):
    """softmax(QKᵀ/√d) V with several heads, written out: fused kernels have no second derivative."""

    def __init__(self, width: int, heads: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.heads = heads
        self.mix = empty_linear(width, 3 * width, bias=True, dtype=dtype)
        self.join = empty_linear(width, width, bias=True, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.mix(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]), dim=-1)
        joined: Tensor = self.join((scores @ value).transpose(1, 2).flatten(2))
        return joined


class TransformerBlock(nn.Module):
    """x ← x + attention(norm(x)), x ← x + MLP(norm(x)): norms come first (Xiong et al. 2020)."""

    def __init__(self, width: int, heads: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, dtype=dtype) for _ in range(2))
        self.attention = _Attention(width, heads, dtype)
        up, down = (
            empty_linear(*sizes, bias=True, dtype=dtype) for sizes in ((width, 4 * width), (4 * width, width))
        )
        self.mlp = nn.Sequential(OrderedDict(up=up, activation=nn.GELU(), down=down))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        joined: Tensor = x + self.mlp(self.norm2(x))
        return joined


class _Mean(nn.Module):
    """The mean over patches, (N, T, width) → (N, width)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def vision_transformer(
    *,
    image: tuple[int, int, int] = (3, 32, 32),
    patch: int = 4,
    width: int = 192,
    heads: int = 3,
    blocks: int = 6,
    outputs: int = 10,
    dtype: torch.dtype = torch.float32,
    generator: torch.Generator,
) -> nn.Sequential:
    """Children: image (rows to pictures), patches, block1 …, norm, pool (a mean over patches), output.

    Without dropout and class token (Dosovitskiy et al. 2021; Beyer et al. 2022). Weights and places start normal with a
    standard deviation of 0.02, biases at 0.

    >>> net = vision_transformer(image=(1, 8, 8), width=8, heads=2, blocks=1, outputs=3,
    ...                          generator=torch.Generator().manual_seed(0))
    >>> net(torch.zeros(2, 64)).shape, [name for name, _ in net.named_children()]
    (torch.Size([2, 3]), ['image', 'patches', 'block1', 'norm', 'pool', 'output'])
    """
    if min(*image, patch, width, heads, blocks, outputs) < 1 or image[1] % patch or image[2] % patch:
        raise ConfigError(
            f"a picture of {image[1]}×{image[2]} cannot be cut into patches of {patch}×{patch}."
        )
    if width % heads:
        raise ConfigError(f"width = {width} cannot be shared by {heads} heads: choose a multiple of them.")
    modules: OrderedDict[str, nn.Module] = OrderedDict(image=nn.Unflatten(1, image))
    modules["patches"] = _Patches(image, patch, width, dtype)
    modules.update({f"block{place + 1}": TransformerBlock(width, heads, dtype) for place in range(blocks)})
    modules["norm"], modules["pool"] = nn.LayerNorm(width, dtype=dtype), _Mean()
    modules["output"] = empty_linear(width, outputs, bias=True, dtype=dtype)
    net = nn.Sequential(modules)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if parameter.dim() > 1:
                parameter.copy_(draw_normal(tuple(parameter.shape), std=0.02, generator=generator))
            elif "norm" not in name:
                parameter.zero_()
    return net
