"""Convolutions of several members as products of patches: values and gradients of the convolutions they stand for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from undertow.core import patch_convolution
from undertow.core.patch_convolution import convolved, stacked_chain
from undertow.models import cnn


def one_by_one(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    biases = [None] * len(x) if bias is None else list(bias)
    each = zip(x, weight, biases, strict=True)
    return torch.stack([nn.functional.conv2d(a, w, b, padding=w.shape[-1] // 2) for a, w, b in each])


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize(
    ("channels", "size", "bias"), [(1, 5, True), (3, 3, False), (2, 1, True), (4, 7, False)]
)
def test_values_and_gradients_are_those_of_convolutions(
    members: int, channels: int, size: int, bias: bool
) -> None:
    torch.manual_seed(0)
    given = [
        torch.randn(members, 4, channels, 9, 8, dtype=torch.float64),
        torch.randn(members, 6, channels, size, size, dtype=torch.float64),
        *([torch.randn(members, 6, dtype=torch.float64)] if bias else []),
    ]
    found = []
    for function in (one_by_one, convolved):
        leaves = [each.clone().requires_grad_() for each in given]
        outputs = function(*leaves, *([] if bias else [None]))
        weights = torch.linspace(-1, 1, outputs.numel(), dtype=torch.float64).view_as(outputs)
        found.append([outputs, *torch.autograd.grad((outputs * weights).sum(), leaves)])
    for theirs, own in zip(*found, strict=True):
        assert torch.allclose(theirs, own, rtol=1e-12, atol=1e-12)


def test_gradients_are_those_of_differences() -> None:
    shapes = [(2, 2, 2, 4, 5), (2, 3, 2, 3, 3), (2, 3)]
    given = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(convolved, given)


def test_large_batches_are_convolved(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = torch.randn(2, 2, 2, 4, 4), torch.randn(2, 3, 2, 3, 3)
    expected = one_by_one(x, weight, None)
    monkeypatch.setattr(patch_convolution._PatchProduct, "apply", None)
    monkeypatch.setattr(patch_convolution, "_MOST", 2 * 2 * 16 * 9 - 1)
    assert torch.allclose(convolved(x, weight, None), expected, atol=1e-5)
    monkeypatch.setattr(patch_convolution, "_MOST", 2 * 2 * 16 * 9)
    with pytest.raises(TypeError):
        convolved(x, weight, None)


def test_a_chain_of_all_members_is_each_of_them() -> None:
    nets = [
        cnn(
            image=(1, 8, 8),
            stages=[(3, 3), (4,)],
            kernels=(5, 3),
            dense=(),
            outputs=2,
            generator=torch.Generator().manual_seed(seed),
        ).double()[:-1]
        for seed in range(3)
    ]
    function = stacked_chain(nets[0])
    assert function is not None
    weights, _ = stack_module_state(nets)  # type: ignore[arg-type]
    x = torch.rand(3, 5, 64, dtype=torch.float64)
    expected = [functional_call(net, {}, (own,)) for net, own in zip(nets, x, strict=True)]
    torch.testing.assert_close(function(weights, x), torch.stack(expected), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "other",
    [
        nn.Conv2d(2, 2, 3, stride=2, padding=1),
        nn.Conv2d(2, 2, 3),
        nn.Conv2d(2, 2, 4, padding="same"),
        nn.Conv2d(2, 2, 3, padding=1, groups=2),
        nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"),
        nn.Conv2d(2, 2, (3, 5), padding="same"),
        nn.BatchNorm2d(2),
    ],
)
def test_other_networks_are_no_such_chain(other: nn.Module) -> None:
    same = nn.Conv2d(2, 2, 3, padding=1)
    assert stacked_chain(nn.Sequential(same, nn.ReLU())) is not None
    assert stacked_chain(nn.Sequential(same, other)) is None
    same.register_forward_hook(lambda *_: None)
    assert stacked_chain(nn.Sequential(same)) is None
