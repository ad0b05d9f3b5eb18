"""A classifier as a chain of affine maps and piecewise-linear activations: what certificates can read."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from undertow.adversary.classifier import Classifier
from undertow.core.layers import (
    ActivationLayer,
    BatchNormLayer,
    ConvolutionLayer,
    FlattenLayer,
    Layer,
    LinearLayer,
    PoolingLayer,
)
from undertow.core.networks import NotAChain, read_layers

__all__ = ["Affine", "Kink", "Stage", "stages_of"]


@dataclass(frozen=True, eq=False)
class Affine:
    """x ↦ W x + b on a batch, with W known only through products.

    ``matrix`` (out, in) is given where the map acts on flat features; elsewhere ``absolute`` is m ↦ |W| m + |b|, of
    which the size of rounding errors follows.
    """

    apply: Callable[[Tensor], Tensor]
    matrix: Tensor | None = None
    bias: Tensor | None = None
    absolute: Callable[[Tensor], Tensor] | None = None

    def sizes(self, m: Tensor) -> Tensor:
        """|W| m + |b|: no entry of W x + b, nor any sum on the way to it, is larger where |x| ≤ m.

        >>> Affine(nn.Identity(), torch.tensor([[1.0, -2.0]]), torch.tensor([-3.0])).sizes(torch.tensor([[1.0, 1.0]]))
        tensor([[6.]])
        """
        if self.matrix is None:
            assert self.absolute is not None, "an affine map without a matrix comes with its absolute value"
            return self.absolute(m)
        if m.ndim == 1:  # one output per sample, without its axis
            m = m.unsqueeze(-1)
        grown = m @ self.matrix.abs().T
        return grown if self.bias is None else grown + self.bias.abs()

    def transposed(self, rows: Tensor, inputs: torch.Size) -> tuple[Tensor, Tensor]:
        """(rows · W, rows · b) for rows (N, *out): shapes (N, *in) and (N,)."""
        if self.matrix is not None:
            shift = rows.new_zeros(len(rows)) if self.bias is None else rows @ self.bias
            # a linear layer on (B, C, d) adds its bias at each of the C places
            return rows @ self.matrix, shift.flatten(1).sum(1) if shift.ndim > 1 else shift
        with torch.enable_grad():
            at = rows.new_zeros(len(rows), *inputs).requires_grad_(True)
            value = self.apply(at)
            (back,) = torch.autograd.grad(value, at, rows)
        return back, (rows * value.detach()[:1]).flatten(1).sum(1)


@dataclass(frozen=True)
class Kink:
    """h ↦ max(h, slope·h), 0 ≤ slope < 1: ReLU and leaky ReLU."""

    slope: float

    def __call__(self, h: Tensor) -> Tensor:
        return torch.maximum(h, self.slope * h)


Stage = Affine | Kink


def stages_of(classifier: Classifier, net: nn.Module, x: Tensor) -> list[Stage] | None:
    """The stages from raw inputs to class scores, in float64; None when a layer is not of a known kind.

    Only exact types are recognised: a subclass may compute anything. Float64, because a certificate that
    rounding can falsify certifies nothing.

    A classifier that divides each sample by its norm is such a chain only up to that positive factor, and
    only where the chain is positively homogeneous: its decisions are then those of the chain without it.
    """
    chain = read_layers(net)
    if isinstance(chain, NotAChain):
        return None
    mean, std = (value.double() for value in classifier.normalisation(x[0]))
    stages: list[Stage] = []
    if bool((mean != 0).any()) or bool((std != 1).any()):
        stages.append(Affine(lambda v: (v - mean) / std, absolute=lambda m: (m + mean.abs()) / std))
    layers = chain.at_work
    for position, layer in enumerate(layers, start=1):
        stage = _stage(layer, last=position == len(layers))
        if stage is None:
            return None
        stages.append(stage)
    with classifier.scoring(x[:1], check=False) as scorer:
        readout = scorer.readout
    last = stages[-1] if stages else None
    if readout is None and isinstance(last, Affine) and last.bias is not None:
        # What all scores have in common decides nothing, and differences may drown in its rounding.
        last.bias.sub_(last.bias[0].clone())
    if readout is not None:
        matrix = readout.double()
        stages.append(Affine(lambda v: (v if v.ndim == 2 else v.unsqueeze(-1)) @ matrix.T, matrix))
    return stages if not classifier.unit_norm or _without_offsets(stages, x) else None


def _stage(layer: Layer, *, last: bool) -> Stage | None:
    """A layer in float64, as an affine map or a kink; None where it is neither."""
    if isinstance(layer, ActivationLayer):
        known = layer.activation
        low, high = (0.0, 0.0) if known is None else known.slope_range
        return Kink(low) if known is not None and known.homogeneous and 0 <= low < 1 == high else None
    if isinstance(layer, FlattenLayer) and layer.joins_samples:
        # (B, 1) to (B,), which the read-out takes too; layers after it would mix the samples of a batch
        return Affine(nn.Flatten(), absolute=nn.Flatten()) if last else None
    if isinstance(layer, LinearLayer):
        twin = copy.deepcopy(layer.module).double().requires_grad_(False)
        return Affine(twin, twin.weight, twin.bias)
    affine = (
        isinstance(layer, FlattenLayer | ConvolutionLayer)
        or (isinstance(layer, PoolingLayer) and layer.linear)
        or (isinstance(layer, BatchNormLayer) and layer.has_statistics)
    )
    if not affine:
        return None
    module = copy.deepcopy(layer.module).double().eval().requires_grad_(False)
    return Affine(module, absolute=_absolute(module))


def _absolute(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """m ↦ |W| m + |b| of a module whose W and b these are."""
    if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
        assert module.running_mean is not None
        assert module.running_var is not None
        scale = (module.running_var + module.eps).rsqrt()
        if module.weight is not None:
            scale = scale * module.weight.abs()
        shift = module.running_mean.abs() * scale
        if module.bias is not None:
            shift = shift + module.bias.abs()

        def normalised(m: Tensor) -> Tensor:
            shape = (-1, *(1,) * (m.ndim - 2))
            return m * scale.reshape(shape) + shift.reshape(shape)

        return normalised
    twin = copy.deepcopy(module)
    for parameter in twin.parameters():  # of convolutions; pooling has none, and weights ≥ 0
        parameter.abs_()
    return twin


def _without_offsets(stages: list[Stage], x: Tensor) -> bool:
    """Whether no affine stage adds anything: with kinks at zero, f(c·x) = c·f(x) for every c > 0."""
    value = torch.zeros_like(x[:1], dtype=torch.float64)
    with torch.no_grad():
        for stage in stages:
            value = stage.apply(value) if isinstance(stage, Affine) else stage(value)
            if bool((value != 0).any()):
                return False
    return True
