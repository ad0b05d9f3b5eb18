"""The structured form J = W_L D_{L−1} ⋯ D_1 W_1 of sequential nets of linear layers and activations."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from undertow.jacobian.factor import Factor

__all__ = ["LayeredOperator", "Layers", "layers_of", "scaled_gram"]

# Acting on each coordinate alone: their Jacobian is the diagonal of the derivatives.
_ELEMENTWISE = (
    nn.ReLU, nn.LeakyReLU, nn.ReLU6, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh,
    nn.Sigmoid, nn.Softplus, nn.Softsign, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.LogSigmoid,
)  # fmt: skip
_NEUTRAL = (nn.Identity, nn.Dropout)


@dataclass(frozen=True)
class Layers:
    """Linear maps with an optional elementwise activation after each, and whether the input is flattened first."""

    flattens: bool
    linears: tuple[nn.Linear, ...]
    activations: tuple[nn.Module | None, ...]


def layers_of(f: object) -> Layers | None:
    """The layers of a sequential net of linear maps and activations; None for any other network.

    Only exact types without hooks or parametrizations are recognised: whatever a subclass or a hook
    may do is left to autograd.
    """
    modules = _flatten(f)
    if modules is None:
        return None
    flattens = False
    linears: list[nn.Linear] = []
    activations: list[nn.Module | None] = []
    for module in modules:
        if type(module) is nn.Linear:
            linears.append(module)
            activations.append(None)
        elif linears and (type(module) in _ELEMENTWISE or getattr(module, "elementwise", False)):
            if activations[-1] is not None:
                return None
            activations[-1] = module
        elif type(module) is nn.Flatten:
            if linears or (module.start_dim, module.end_dim) != (1, -1):
                return None
            flattens = True
        elif type(module) not in _NEUTRAL:
            return None
    return Layers(flattens, tuple(linears), tuple(activations)) if linears else None


def _flatten(f: object) -> list[nn.Module] | None:
    if not isinstance(f, nn.Module) or f._forward_hooks or f._forward_pre_hooks or "forward" in vars(f):
        return None
    if type(f) is not nn.Sequential:
        return [f]
    modules: list[nn.Module] = []
    for child in f:
        below = _flatten(child)
        if below is None:
            return None
        modules += below
    return modules


class LayeredOperator:
    """Products with J(x_i) = D_L W_L ⋯ D_1 W_1 by masked matrix products; no autograd.

    ``slopes[l]`` holds the activation's derivatives at layer l, (N, width), or None where there is no
    activation. With no activation at all, every sample has the same Jacobian.
    """

    def __init__(
        self,
        weights: tuple[Tensor, ...],
        slopes: tuple[Tensor | None, ...],
        batch: int,
        factors: tuple[Factor, ...] | None = None,
    ) -> None:
        self.weights = weights
        self.factors = tuple(Factor(weight) for weight in weights) if factors is None else factors
        self.slopes = slopes
        self.batch = batch
        self.in_size = weights[0].shape[1]
        self.out_size = weights[-1].shape[0]
        self.dtype = weights[0].dtype
        self.device = weights[0].device
        self.constant = all(slope is None for slope in slopes)

    @classmethod
    def at(cls, layers: Layers, x: Tensor) -> LayeredOperator:
        value = x.detach().flatten(1) if x.dim() > 2 else x.detach()
        slopes: list[Tensor | None] = []
        for linear, activation in zip(layers.linears, layers.activations, strict=True):
            with torch.no_grad():
                value = nn.functional.linear(value, linear.weight, linear.bias)
            slope = None
            if activation is not None:
                value, slope = _value_and_slope(activation, value)
            slopes.append(slope)
        return cls(tuple(linear.weight.detach() for linear in layers.linears), tuple(slopes), x.shape[0])

    def jvp(self, tangent: Tensor) -> Tensor:
        for factor, slope in zip(self.factors, self.slopes, strict=True):
            tangent = factor.times(tangent)
            if slope is not None:
                tangent = tangent.mul_(slope)
        return tangent

    def vjp(self, cotangent: Tensor) -> Tensor:
        for factor, slope in zip(reversed(self.factors), reversed(self.slopes), strict=True):
            if slope is not None:
                cotangent = cotangent * slope
            cotangent = factor.back(cotangent)
        return cotangent

    def take(self, index: Tensor) -> LayeredOperator:
        slopes = tuple(None if slope is None else slope[index] for slope in self.slopes)
        return LayeredOperator(self.weights, slopes, len(index), self.factors)

    def rows(self) -> Tensor:
        product = self.weights[-1].expand(self.batch, -1, -1)
        if self.slopes[-1] is not None:
            product = product * self.slopes[-1][:, :, None]
        for weight, slope in zip(reversed(self.weights[:-1]), reversed(self.slopes[:-1]), strict=True):
            if slope is not None:
                product = product * slope[:, None, :]
            product = product @ weight
        return product

    def columns(self) -> Tensor:
        product = self.weights[0].T.expand(self.batch, -1, -1)
        for weight, slope in zip((*self.weights[1:], None), self.slopes, strict=True):
            if slope is not None:
                product = product * slope[:, None, :]
            if weight is not None:
                product = product @ weight.T
        return product

    def gram(self) -> tuple[Tensor, Tensor]:
        if len(self.weights) == 1 and self.slopes[0] is not None and self.out_size <= self.in_size:
            # D W Wᵀ D: one product W Wᵀ serves all samples.
            scale = self.weights[0].abs().max().clamp_min(torch.finfo(self.dtype).tiny)
            shared = (self.weights[0] / scale) @ (self.weights[0] / scale).T
            slope = self.slopes[0]
            return slope[:, :, None] * shared * slope[:, None, :], scale.expand(self.batch)
        return scaled_gram(self.rows() if self.out_size <= self.in_size else self.columns())


def scaled_gram(dense: Tensor) -> tuple[Tensor, Tensor]:
    """Gram matrices (N, k, k) of ``dense``/scale, (N, k, ·), and the scales (N,).

    Scaled to order one, so that squares neither overflow nor vanish in float32.
    """
    scale = dense.abs().amax((1, 2)).clamp_min(torch.finfo(dense.dtype).tiny)
    dense = dense / scale[:, None, None]
    return dense @ dense.mT, scale


def _value_and_slope(activation: nn.Module, value: Tensor) -> tuple[Tensor, Tensor]:
    # PyTorch's own derivative at a kink (zero for ReLU at 0), so that both operators agree there.
    leaf = value.detach().requires_grad_()
    with torch.enable_grad():
        output = activation(leaf.clone())
        (slope,) = torch.autograd.grad(output.sum(), leaf)
    return output.detach(), slope
