"""Convolutions as products of patches: values and gradients of the convolution that they stand for."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from undertow.core import patch_convolution
from undertow.core.patch_convolution import PatchConv2d, with_patch_products


@pytest.mark.parametrize(
    ("channels", "size", "bias"), [(1, 5, True), (3, 3, False), (2, 1, True), (4, 7, False)]
)
def test_values_and_gradients_are_those_of_the_convolution(channels: int, size: int, bias: bool) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(channels, 6, size, padding=size // 2, bias=bias)).double()
    ours = with_patch_products(plain)
    assert isinstance(ours[0], PatchConv2d)  # type: ignore[index]
    x = torch.randn(4, channels, 9, 8, dtype=torch.float64)
    found = []
    for net in (plain, ours):
        inputs = x.clone().requires_grad_()
        outputs = net(inputs)
        weights = torch.linspace(-1, 1, outputs.numel(), dtype=torch.float64).view_as(outputs)
        found.append([outputs, *torch.autograd.grad((outputs * weights).sum(), [inputs, *net.parameters()])])
    for theirs, own in zip(*found, strict=True):
        assert torch.allclose(theirs, own, rtol=1e-12, atol=1e-12)


def test_gradients_are_those_of_differences() -> None:
    net = with_patch_products(nn.Conv2d(2, 3, 3, padding="same").double())
    x = torch.randn(2, 2, 4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(net, (x,))


def test_large_batches_and_other_convolutions_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [
        nn.Conv2d(2, 2, 3, stride=2, padding=1),
        nn.Conv2d(2, 2, 3),
        nn.Conv2d(2, 2, 4, padding="same"),
        nn.Conv2d(2, 2, 3, padding=1, groups=2),
        nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"),
        nn.Conv2d(2, 2, (3, 5), padding="same"),
    ]
    assert all(type(each) is nn.Conv2d for each in with_patch_products(nn.Sequential(*others)).children())
    layer = with_patch_products(nn.Conv2d(2, 3, 3, padding=1))
    x = torch.randn(2, 2, 4, 4)
    monkeypatch.setattr(patch_convolution._PatchProduct, "apply", None)
    monkeypatch.setattr(patch_convolution, "_MOST", 2 * 2 * 16 * 9 - 1)
    assert layer(x).shape == (2, 3, 4, 4)
    monkeypatch.setattr(patch_convolution, "_MOST", 2 * 2 * 16 * 9)
    with pytest.raises(TypeError):
        layer(x)
