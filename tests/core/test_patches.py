"""Convolutions as products of matrices, beside PyTorch's own: values, transposes, gradients."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
import torch
from torch.nn import functional

from undertow.core.patches import MatrixConvolution
from undertow.core.weight_gradients import first_weight_gradients
from undertow.models.picture_layers import convolution


def _settings() -> Iterator[tuple[tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int]]]:
    """Kernels, strides, margins and pictures that fit together."""
    kernels, strides = ((1, 1), (3, 3), (2, 3), (7, 7), (1, 4)), ((1, 1), (2, 2), (1, 3))
    margins, pictures = ((0, 0), (1, 1), (3, 2)), ((1, 1), (2, 2), (5, 4), (8, 9))
    for kernel, stride, margin, picture in product(kernels, strides, margins, pictures):
        if all(p + 2 * m >= k for k, m, p in zip(kernel, margin, picture, strict=True)):
            yield kernel, stride, margin, picture


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
def test_values_and_transposes_are_those_of_the_convolution(last: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    layout = torch.channels_last if last else torch.contiguous_format
    for kernel, stride, margin, picture in _settings():
        weight = torch.randn(5, 4, *kernel, generator=generator, dtype=torch.float64)
        x = torch.randn(3, 4, *picture, generator=generator, dtype=torch.float64).to(memory_format=layout)
        x.requires_grad_()
        value = functional.conv2d(x, weight, None, stride, margin)
        cotangent = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        (pulled,) = torch.autograd.grad(value, x, cotangent)
        layer = MatrixConvolution(weight, stride, margin, picture)
        torch.testing.assert_close(layer(x.detach()), value.detach(), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(layer.transposed(cotangent), pulled, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("size", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2), (7, 2)])
def test_of_pictures_of_one_pixel_a_convolution_trains_as_a_matrix(
    size: int, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = convolution(4, 5, size=size, stride=stride, dtype=torch.float64)
    torch.nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(0))
    x = torch.randn(3, 4, 1, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x.requires_grad_()
    cotangent = torch.randn(3, 5, 1, 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    theirs = torch.autograd.grad(layer(x), (x, layer.weight), cotangent)
    monkeypatch.setattr(layer, "_conv_forward", None)  # no convolution is made
    with first_weight_gradients():
        value = layer(x)
    ours = torch.autograd.grad(value, (x, layer.weight), cotangent)
    assert value.shape == (3, 5, 1, 1)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_pictures_of_more_pixels_are_convolved_while_training() -> None:
    layer = convolution(4, 5, size=3, stride=2, dtype=torch.float64)
    torch.nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(0))
    x = torch.randn(3, 4, 2, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with first_weight_gradients():
        torch.testing.assert_close(layer(x), functional.conv2d(x, layer.weight, None, 2, 1))
