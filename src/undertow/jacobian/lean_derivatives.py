"""Layers with derivatives in the input and nothing else: convolutions, batch norm in eval mode, layer norm.

A Lanczos run takes dozens of products with J and Jᵀ. Where J u comes from differentiating Jᵀv once more, autograd's
rule for convolutions computes the weights' share too, whoever asks, which takes as long again, and on the CPU in
float64 three times as long; its rule for batch norm has twenty terms, of which eval mode leaves one. Here

    y = W ∗ x + b,   Jᵀv = Wᵀ ∗ v,   J u = W ∗ u,      and   y = s x + t,   Jᵀv = s v,   J u = s u.

Layer norm is in :mod:`undertow.jacobian.lean_layer_norm`.

With ``products`` these are computed in a lower precision than the network's values: where a rounding of float32
switches ReLUs, values in float64 switch them rightly, and products in float32 are as good as before, in a third of the
time on CPUs and in a fortieth on most GPUs.

On a GPU convolutions of pictures are products of matrices (:mod:`undertow.core.patches`): of ResNet-50 on pictures of
32×32, J u and Jᵀv ran at 4 TFLOP/s as convolutions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from undertow.core.patches import MatrixConvolution
from undertow.jacobian.lean_layer_norm import layer_norm

__all__ = ["LeanDerivatives"]

_CONVOLUTIONS: dict[Callable[..., Tensor], int] = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}
_FEW_CHANNELS = 4
_hooks = getattr(
    torch._C._autograd, "_top_saved_tensors_default_hooks", lambda _: None
)  # not in older PyTorch


class LeanDerivatives(TorchFunctionMode):
    """What a network computes within it has the values it always has, and derivatives in its input alone.

    >>> x, layer = torch.randn(2, 1, 9, requires_grad=True), torch.nn.Conv1d(1, 8, 5)
    >>> with LeanDerivatives():
    ...     value = layer(x)
    >>> torch.equal(value, layer(x)), type(value.grad_fn).__name__
    (True, '_ConvolvedBackward')
    """

    def __init__(self, products: torch.dtype | None = None) -> None:
        super().__init__()
        self._products = products

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        value = partial(func, *args, **kwargs)
        if func in _CONVOLUTIONS:
            return _convolved(value, *args, dimensions=_CONVOLUTIONS[func], products=self._products, **kwargs)
        if func is functional.batch_norm:
            return _normalised(value, *args, **kwargs)
        if func is functional.layer_norm:
            return _layer_normalised(value, *args, **kwargs)
        return value()


def _convolved(
    value: Callable[[], Tensor],
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    *,
    dimensions: int,
    products: torch.dtype | None,
) -> Tensor:
    """The value with lean derivatives, unless the call is one of the rare kinds that are left to autograd."""
    spread = _each(dilation, dimensions)
    margins = _margins(padding, weight.shape[2:], spread)
    if margins is None or input.dim() != dimensions + 2 or _left_to_autograd(input, weight, bias):
        return value()
    each = (_each(stride, dimensions), margins, spread)
    kernel = weight.detach() if products is None else weight.detach().to(products)
    layer: _Convolution | MatrixConvolution
    layer = _Convolution(kernel, *each, groups, tuple(input.shape), input.stride())
    if _by_matrices(input, groups, each[2]):
        steps, zeros = ((first, second) for first, second in each[:2])
        layer = MatrixConvolution(kernel, steps, zeros, (input.shape[2], input.shape[3]))
        if products is None:
            value = partial(_shifted, layer, input, bias)
    taken = layer if products is None else _Coarser(layer, products)
    found: Tensor = _Convolved.apply(input, value, taken)  # type: ignore[no-untyped-call]
    return found


def _margins(
    padding: str | int | Sequence[int], kernel: Sequence[int], dilation: Sequence[int]
) -> list[int] | None:
    """Zeros on either side; None where there is one more on one side than on the other.

    >>> _margins("same", (3, 5), (1, 2)), _margins("valid", (3,), (1,)), _margins("same", (4,), (1,))
    ([1, 4], [0], None)
    """
    if not isinstance(padding, str):
        return _each(padding, len(kernel))
    more = [
        0 if padding == "valid" else spread * (size - 1)
        for size, spread in zip(kernel, dilation, strict=True)
    ]
    return None if any(each % 2 for each in more) else [each // 2 for each in more]


def _by_matrices(input: Tensor, groups: int, dilation: list[int]) -> bool:
    """Whether a convolution is faster as a product of matrices, in the precisions that bounds speak of."""
    precise = input.dtype in (torch.float32, torch.float64)
    return input.is_cuda and input.dim() == 4 and groups == 1 and set(dilation) == {1} and precise


def _shifted(layer: MatrixConvolution, input: Tensor, bias: Tensor | None) -> Tensor:
    found = layer(input)
    return found if bias is None else found + bias.view(-1, 1, 1)


def _left_to_autograd(input: Tensor, *weights: Tensor | None) -> bool:
    """Whether derivatives here are not those in the input alone, or have to be taken as they always are.

    Weights that are computed may be computed from the input (dynamic convolutions, conditional normalisation). A
    checkpoint runs its part of the network again when derivatives are taken, outside of here, and wants it to keep then
    what it kept before.
    """
    computed = any(weight is not None and weight.grad_fn is not None for weight in weights)
    return computed or not input.requires_grad or _hooks(False) is not None


def _each(setting: int | Sequence[int], dimensions: int) -> list[int]:
    found = [setting] if isinstance(setting, int) else list(setting)
    return found * dimensions if len(found) == 1 else found


def _normalised(
    value: Callable[[], Tensor],
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,  # noqa: ARG001
    eps: float = 1e-5,
) -> Tensor:
    """The value with lean derivatives in eval mode; statistics of the batch are left to autograd."""
    if training or running_mean is None or running_var is None or _left_to_autograd(input, weight, bias):
        return value()
    with torch.no_grad():
        scale = (running_var + eps).rsqrt()
        scale = scale if weight is None else scale * weight
        scale = scale.to(input.dtype).view(-1, *[1] * (input.dim() - 2))
    found: Tensor = _Scaled.apply(input, value, scale)  # type: ignore[no-untyped-call]
    return found


def _layer_normalised(
    value: Callable[[], Tensor],
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    if _left_to_autograd(input, weight, bias):
        return value()
    return layer_norm(input, list(normalized_shape), weight, bias, eps)


@dataclass(frozen=True)
class _Convolution:
    """A convolution without its bias, for inputs of one shape."""

    weight: Tensor
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def __call__(self, tangent: Tensor) -> Tensor:
        nothing = [0] * len(self.stride)
        settings = (self.stride, self.padding, self.dilation, False, nothing, self.groups)
        return torch.convolution(tangent, self.weight, None, *settings)

    def transposed(self, cotangent: Tensor) -> Tensor:
        # Of the input the shape is read, and nothing else.
        like = torch.empty_strided(self.shape, self.strides, dtype=cotangent.dtype, device=cotangent.device)
        nothing = [0] * len(self.stride)
        settings = (self.stride, self.padding, self.dilation, False, nothing, self.groups)
        with _without_blocks(on=self._is_narrow and cotangent.device.type == "cpu"):
            found: Tensor = torch.ops.aten.convolution_backward(
                cotangent, like, self.weight, None, *settings, [True, False, False]
            )[0]
        return found

    @property
    def _is_narrow(self) -> bool:
        return self.weight.shape[1] <= _FEW_CHANNELS and self.groups == 1


@dataclass(frozen=True)
class _Coarser:
    """A convolution that is computed in another precision than what it is given and gives."""

    layer: _Convolution | MatrixConvolution
    dtype: torch.dtype

    def __call__(self, tangent: Tensor) -> Tensor:
        return self.layer(tangent.to(self.dtype)).to(tangent.dtype)

    def transposed(self, cotangent: Tensor) -> Tensor:
        return self.layer.transposed(cotangent.to(self.dtype)).to(cotangent.dtype)


_Layer: TypeAlias = _Convolution | MatrixConvolution | _Coarser


@contextmanager
def _without_blocks(*, on: bool) -> Iterator[None]:
    """oneDNN works on blocks of channels. With one or three a plain matrix product takes a third to a twentieth."""
    fused = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(
        fused and not on
    )  # ``mkldnn.flags`` would speak of TF32 wherever there is none
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(fused)


class _Convolved(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,  # noqa: ARG004
        value: Callable[[], Tensor],
        layer: _Layer,
    ) -> Tensor:
        ctx.layer = layer
        return value()

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, None, None]:
        return _PulledBack.apply(cotangent, ctx.layer), None, None  # type: ignore[no-untyped-call]


class _PulledBack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cotangent: Tensor, layer: _Layer) -> Tensor:
        ctx.layer = layer
        return layer.transposed(cotangent)

    @staticmethod
    def backward(ctx: Any, tangent: Tensor) -> tuple[Tensor, None]:
        return ctx.layer(tangent), None


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, value: Callable[[], Tensor], scale: Tensor) -> Tensor:  # noqa: ARG004
        ctx.scale = scale
        return value()

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, None, None]:
        return cotangent * ctx.scale, None, None
