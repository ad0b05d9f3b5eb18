"""Lean derivatives of convolutions and normalisations are those that autograd takes, product by product."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from undertow.jacobian import lean_derivatives
from undertow.jacobian.lean_derivatives import LeanDerivatives
from undertow.jacobian.operator import AutogradOperator
from undertow.jacobian.perturbation import Noise


class FromTheInput(nn.Module):
    """A convolution and a normalisation whose weights are computed from each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel, self.scale = nn.Linear(9, 4 * 3), nn.Linear(9, 4)

    def forward(self, x: Tensor) -> Tensor:
        kernels = self.kernel(x.flatten(1)).view(-1, 1, 3)
        y = functional.conv1d(x.view(1, len(x), 9), kernels, groups=len(x))
        scales = self.scale(x.flatten(1)).flatten()
        mean, var = torch.zeros_like(scales), torch.full_like(scales, 2.0)
        return functional.batch_norm(y, mean.detach(), var.detach(), scales).view(len(x), -1)


class Checkpointed(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(super().forward, x, use_reentrant=False)  # type: ignore[no-any-return]


# PyTorch says once in a process that even kernels with padding="same" need a copy of what they are given.
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")

_LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "one channel, long kernel": (lambda: nn.Conv2d(1, 6, (16, 1), stride=(4, 1)), (1, 64, 1)),
    "three channels": (lambda: nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False), (3, 17, 18)),
    "many channels": (lambda: nn.Conv2d(8, 5, 3, padding=1, dilation=2), (8, 9, 9)),
    "groups": (lambda: nn.Conv2d(6, 12, 3, groups=3), (6, 7, 7)),
    "depthwise": (lambda: nn.Conv2d(6, 6, 3, groups=6, padding=1), (6, 7, 7)),
    "one axis": (lambda: nn.Conv1d(2, 4, 5, stride=3), (2, 23)),
    "three axes": (lambda: nn.Conv3d(2, 3, 2), (2, 4, 5, 4)),
    "reflected": (lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (3, 6, 6)),
    "padding by name": (lambda: nn.Conv2d(3, 4, (3, 5), padding="same"), (3, 6, 6)),
    "more padding on one side": (lambda: nn.Conv2d(3, 4, 4, padding="same"), (3, 6, 6)),
    "padding by name, spread": (lambda: nn.Conv1d(3, 4, 3, padding="same", dilation=2), (3, 9)),
    "no padding, by name": (lambda: nn.Conv1d(3, 4, 3, stride=2, padding="valid"), (3, 9)),
    "over the last axis": (lambda: _moved(nn.LayerNorm(5)), (4, 5)),
    "over two axes without weights": (lambda: nn.LayerNorm((4, 5), elementwise_affine=False), (2, 4, 5)),
    "a scale alone": (lambda: _moved(nn.LayerNorm(5, bias=False)), (5,)),
    "between layers, then in place": (
        lambda: nn.Sequential(
            nn.Linear(5, 7), _moved(nn.LayerNorm(7)), nn.ReLU(inplace=True), nn.Linear(7, 4)
        ),
        (5,),
    ),
    "a mean and a scale": (lambda: _moved(nn.BatchNorm2d(5)), (5, 4, 4)),
    "without a weight": (lambda: _moved(nn.BatchNorm1d(5, affine=False)), (5,)),
    "without statistics": (lambda: nn.Sequential(nn.InstanceNorm2d(3), nn.Conv2d(3, 4, 3)), (3, 6, 6)),
    "changed in place": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.ReLU(inplace=True), _moved(nn.BatchNorm2d(8)), nn.ReLU(inplace=True)
        ),
        (3, 9, 9),
    ),
    "weights from the input": (FromTheInput, (1, 9)),
    "computed again": (
        lambda: Checkpointed(nn.Conv1d(1, 4, 3), _moved(nn.BatchNorm1d(4)), nn.ReLU(), nn.Conv1d(4, 2, 3)),
        (1, 9),
    ),
    "two of them": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), _moved(nn.BatchNorm2d(8)), nn.ReLU(), nn.Conv2d(8, 3, 3)),
        (3, 9, 9),
    ),
}


def _moved(layer: nn.Module) -> nn.Module:
    for tensor in (*layer.parameters(), *layer.buffers()):
        if tensor.is_floating_point():
            nn.init.uniform_(tensor, 0.3, 2.0)
    return layer


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", _LAYERS)
def test_products_are_those_of_the_dense_jacobian(name: str, dtype: torch.dtype) -> None:
    build, shape = _LAYERS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, x = build().eval().to(dtype), torch.randn(3, *shape, dtype=dtype)
        operator = AutogradOperator(net, x)
        u = torch.randn(3, operator.in_size, dtype=dtype)
        v = torch.randn(3, operator.out_size, dtype=dtype)
    assert torch.equal(operator.output, net(x))
    dense = torch.stack([_dense(net, sample) for sample in x.split(1)])
    rtol = 1e-4 if dtype is torch.float32 else 1e-10
    for ours, theirs in (
        (operator.jvp(u), torch.einsum("noi,ni->no", dense, u)),
        (operator.vjp(v), torch.einsum("noi,no->ni", dense, v)),
    ):
        torch.testing.assert_close(ours, theirs, rtol=rtol, atol=rtol / 10)
    assert operator._forward_mode is False


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [name for name in _LAYERS if len(_LAYERS[name][1]) == 3])
def test_products_of_matrices_are_those_of_convolutions(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a GPU does with pictures, on any machine."""
    build, shape = _LAYERS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, x = build().eval().to(dtype), torch.randn(3, *shape, dtype=dtype)
        plain = AutogradOperator(net, x)
        u = torch.randn(3, plain.in_size, dtype=dtype)
        v = torch.randn(3, plain.out_size, dtype=dtype)
    taken: list[int] = []

    def whenever_it_can(_input: Tensor, groups: int, dilation: list[int]) -> bool:
        taken.append(groups == 1 and set(dilation) == {1})
        return bool(taken[-1])

    monkeypatch.setattr(lean_derivatives, "_by_matrices", whenever_it_can)
    operator = AutogradOperator(net, x)
    close: dict[str, Any] = (
        {"rtol": 1e-4, "atol": 1e-5} if dtype is torch.float32 else {"rtol": 1e-10, "atol": 1e-11}
    )
    torch.testing.assert_close(operator.output, plain.output, **close)
    torch.testing.assert_close(operator.jvp(u), plain.jvp(u), **close)
    torch.testing.assert_close(operator.vjp(v), plain.vjp(v), **close)
    assert any(taken) or name in (
        "many channels",
        "groups",
        "depthwise",
        "more padding on one side",
        "over two axes without weights",
        "a mean and a scale",
    )


def test_noise_moves_a_product_of_matrices_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutting patches computes nothing, and must not be taken for something that rounds."""
    monkeypatch.setattr(lean_derivatives, "_by_matrices", lambda *_: True)
    moved: list[str] = []

    class Noting(Noise):
        def onto(self, tensor: Tensor) -> Tensor:
            moved.append("result")
            return super().onto(tensor)

    net, x = nn.Conv2d(3, 4, 3, padding=1, bias=False), torch.randn(2, 3, 5, 5)
    noise = Noting(torch.float32, x.device)
    with torch.no_grad():
        AutogradOperator(net, x, arithmetic=noise.mode)
    assert len(moved) == 1


def _dense(net: nn.Module, sample: Tensor) -> Tensor:
    found = torch.autograd.functional.jacobian(net, sample)
    return found.reshape(-1, sample.numel())  # type: ignore[no-any-return]


def test_an_input_that_is_changed_later_does_not_matter() -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            y = self.one(x)
            return y + self.two(x.mul_(2.0))  # type: ignore[no-any-return]

    net, x = InPlace().double().requires_grad_(False), torch.randn(2, 2, 5, 5).double()
    operator = AutogradOperator(net, x)
    u = torch.randn(2, operator.in_size).double()
    plain = torch.func.jvp(lambda z: net(z.clone()), (x,), (u.view_as(x),))[1]
    torch.testing.assert_close(operator.jvp(u), plain.flatten(1))


def test_training_mode_is_left_to_autograd() -> None:
    layer, x = nn.BatchNorm1d(3), torch.randn(5, 3, requires_grad=True)
    with LeanDerivatives():
        value = layer(x)
    assert "Scaled" not in type(value.grad_fn).__name__


@pytest.mark.parametrize(
    "layer", [nn.Conv2d(3, 4, 3, padding="same"), nn.LayerNorm(6)], ids=["same", "layer norm"]
)
def test_no_rule_of_autograds_is_differentiated(layer: nn.Module) -> None:
    """Which gives the same, and takes several times as long."""
    x = torch.randn(2, 3, 6, 6, requires_grad=True)
    with LeanDerivatives():
        value = layer(x)
    pulled = torch.autograd.grad(value, x, torch.ones_like(value, requires_grad=True), create_graph=True)[0]
    assert {type(each.grad_fn).__name__ for each in (value, pulled)} <= {
        "_ConvolvedBackward",
        "_PulledBackBackward",
        "_NormalisedBackward",
    }


def test_what_layer_norm_was_given_must_not_change_afterwards() -> None:
    """Its derivative is taken where it was computed; autograd says so, with or without lean derivatives."""

    def f(x: Tensor) -> Tensor:
        y = 2 * x
        found = functional.layer_norm(y, (5,))
        y += 1
        return found

    for derivatives in (LeanDerivatives, nullcontext):
        x = torch.randn(2, 5, requires_grad=True)
        with derivatives():
            value = f(x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            value.sum().backward()
