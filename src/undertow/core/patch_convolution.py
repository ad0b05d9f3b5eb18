"""Convolutional networks of one architecture as one, their convolutions as products of patches: small ones, compiled.

Where results must repeat bit for bit, cuDNN convolves few channels with kernels that fill a GPU badly. As products of
all members at once, with copying, padding, pooling and rectifying fused around them by a compiler, a training step
takes less time, that of several networks much less. A batch's patches are k² times its pixels, so that large layers are
convolved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from undertow.core.networks import is_unmodified
from undertow.core.patches import patch_rows

__all__ = ["convolved", "patch_numbers", "stacked_chain"]

_MOST = 2**23  # numbers in the patches of one member's batch, where gradients are wanted too
_SAMPLEWISE = (nn.Unflatten, nn.Flatten, nn.ReLU, nn.LeakyReLU, nn.GELU, nn.MaxPool2d, nn.AvgPool2d)
"""Modules without parameters that treat every sample alike, so that members' samples may follow each other."""


class _PatchProduct(torch.autograd.Function):
    """W ∗ x + b of x (M, N, C, H, W) with weights (M, O, C, k, k), stride 1 and "same" padding.

    Patches are rows (M, N·H·W, k²·C), channels last: so are the results, which the next layer's patches are made from.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        members, samples, _, height, width = x.shape
        patches = _patches(x, weight.shape[3])
        rows = torch.bmm(patches, _flat(weight).transpose(1, 2))
        if bias is not None:
            rows = rows + bias[:, None]
        ctx.save_for_backward(weight, patches)
        ctx.biased = bias is not None
        return rows.view(members, samples, height, width, -1).permute(0, 1, 4, 2, 3)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        weight, patches = ctx.saved_tensors
        (delta,) = slopes
        members, samples, outputs, height, width = delta.shape
        channels, size = weight.shape[2:4]
        rows = delta.permute(0, 1, 3, 4, 2).reshape(members * samples, height * width, outputs)
        by_x = None
        if ctx.needs_input_grad[0]:
            spread = torch.bmm(rows.reshape(members, -1, outputs), _flat(weight))
            spread = spread.view(members * samples, height, width, size, size, channels)
            by_x = _gathered(spread.permute(3, 4, 0, 5, 1, 2)).view(members, samples, channels, height, width)
        # A product for each sample, then their sum: one product alone would be a few long sums, on few processors.
        each = torch.bmm(rows.transpose(1, 2), patches.view(members * samples, height * width, -1))
        total = (
            each.view(members, samples, *each.shape[1:]).sum(1).view(members, outputs, size, size, channels)
        )
        by_bias = delta.sum((1, 3, 4)) if ctx.biased else None
        return by_x, total.permute(0, 1, 4, 2, 3).contiguous(), by_bias


def _patches(x: Tensor, size: int) -> Tensor:
    around = (size // 2, size // 2)
    rows = patch_rows(x.flatten(0, 1), (size, size), (1, 1), (around, around))
    return rows.reshape(len(x), -1, rows.shape[3])


def _flat(weight: Tensor) -> Tensor:
    return weight.permute(0, 1, 3, 4, 2).reshape(*weight.shape[:2], -1)


def _gathered(spread: Tensor) -> Tensor:
    """Σ over a kernel's places (i, j) of what each gives to the pixel that it has read, from (k, k, N, C, H, W)."""
    size = len(spread)
    total = torch.zeros_like(spread[0, 0])
    for i in range(size):
        for j in range(size):
            down, right = i - size // 2, j - size // 2
            total = total + functional.pad(spread[i, j], (right, -right, down, -down))
    return total


def convolved(x: Tensor, weight: Tensor, bias: Tensor | None, *, most: int | None = None) -> Tensor:
    """ "Same" convolutions of x (M, N, C, H, W) with each member's weights (M, O, C, k, k), bias (M, O).

    As products, where a member's patches are no more than ``most`` numbers.

    >>> convolved(torch.ones(2, 1, 1, 3, 3), torch.ones(2, 1, 1, 3, 3), None)[1, 0, 0, 1].tolist()
    [6.0, 9.0, 6.0]
    """
    if x[0].numel() * weight.shape[3] ** 2 <= (_MOST if most is None else most):
        found: Tensor = _PatchProduct.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return found
    biases = [None] * len(x) if bias is None else bias.unbind(0)
    members = zip(x.unbind(0), weight.unbind(0), biases, strict=True)
    return torch.stack([functional.conv2d(*each, padding="same") for each in members])


def stacked_chain(
    network: nn.Module, *, most: int | None = None
) -> Callable[[Mapping[str, Tensor], Tensor], Tensor] | None:
    """A function of stacked weights (M, …) by name and samples (M, N, …), with the networks' outputs (M, N, …).

    Of a chain of convolutions of stride 1 with "same" padding and of what treats every sample alike; else None.
    ``most`` is that of ``convolved``.

    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    >>> weights = {name: torch.stack([weight] * 2) for name, weight in net.named_parameters()}
    >>> x = torch.rand(2, 5, 1, 6, 6)
    >>> torch.allclose(stacked_chain(net)(weights, x)[1], net(x[1]), atol=1e-6)
    True
    """
    if type(network) is not nn.Sequential or not is_unmodified(network):
        return None
    modules = list(network.named_children())
    if not all(is_unmodified(each) and (type(each) in _SAMPLEWISE or _is_same(each)) for _, each in modules):
        return None

    def outputs(weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
        members, samples = x.shape[:2]
        for name, module in modules:
            if isinstance(module, nn.Conv2d):
                x = convolved(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"), most=most)
            else:
                x = module(x.flatten(0, 1)).unflatten(0, (members, samples))
        return x

    return outputs


def patch_numbers(network: nn.Module, sample: Tensor) -> int:
    """How many numbers the patches of one sample, given as (1, …), are in the layer where they are most.

    >>> patch_numbers(nn.Sequential(nn.Conv2d(2, 4, 3, padding=1)), torch.zeros(1, 2, 5, 5))  # 2 · 5 · 5 · 3 · 3
    450
    """
    largest = 0
    with torch.no_grad():
        for module in network.children():
            if isinstance(module, nn.Conv2d):
                largest = max(largest, sample.numel() * module.kernel_size[0] ** 2)
            sample = module(sample)
    return largest


def _is_same(layer: nn.Module) -> bool:
    """Whether this is an ordinary convolution whose output has the size of its input, with a square odd kernel."""
    if type(layer) is not nn.Conv2d:
        return False
    height, width = layer.kernel_size
    plain = layer.stride == (1, 1) and layer.dilation == (1, 1) and layer.groups == 1
    padded = layer.padding == (height // 2, height // 2) or layer.padding == "same"
    return plain and padded and height == width and height % 2 == 1 and layer.padding_mode == "zeros"
