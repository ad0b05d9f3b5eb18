"""Fully connected networks as one: stacked weights, matrix products, gradients written by hand."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from undertow.core.members import Aside, over_members
from undertow.core.networks import NotAChain, read_dense
from undertow.training.elementwise_gradients import ElementwiseActivation, elementwise_gradient
from undertow.training.ensemble import Ensemble

__all__ = ["DenseLayer", "StackedLayers", "StackedMLP", "dense_layers"]

_LARGE = 2**20
_FEW = 32  # outputs, for which a GPU's product is cut along the inputs
_PIECE = 64


@dataclass(frozen=True)
class DenseLayer:
    """z = W h + b, σ(z): the names of W and b, the activation where there is one, and the width of z."""

    weight: str
    bias: str | None
    activation: ElementwiseActivation | None
    width: int


def dense_layers(network: nn.Module) -> list[DenseLayer] | None:
    """The layers of ``Sequential(Flatten?, Linear, activation?, Linear, …)``, or None for anything else.

    >>> [layer.weight for layer in dense_layers(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Tanh()))]
    ['1.weight']
    >>> dense_layers(nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3))) is None
    True
    """
    chain = read_dense(network, training=True)
    if isinstance(chain, NotAChain):
        return None
    layers: list[DenseLayer] = []
    for name, linear, layer in zip(chain.names, chain.linears, chain.activations, strict=True):
        if layer is not None and layer.activation is None:
            return None  # autograd has to differentiate it
        activation = None if layer is None else layer.activation
        inside = f"{name}." if name else ""
        layers.append(
            DenseLayer(
                f"{inside}weight",
                None if linear.bias is None else f"{inside}bias",
                None if activation is None else elementwise_gradient(activation),
                linear.out_features,
            )
        )
    # A parameter that two layers share is listed once.
    tied = len(list(network.parameters())) < sum(1 + (layer.bias is not None) for layer in layers)
    return None if tied else layers


class StackedLayers:
    """Fully connected layers of M networks, with weights (M, out, in), forward and backward.

    Samples are columns, so that every product of a layer is (M, out, in) @ (M, in, B) without a transposed copy.
    """

    def __init__(
        self, layers: Sequence[DenseLayer], weights: Mapping[str, Tensor], trained: Sequence[str]
    ) -> None:
        self.layers, self._weights, self._trained = layers, weights, frozenset(trained)
        own = [layer.weight in self._trained or layer.bias in self._trained for layer in layers]
        self._lowest = own.index(True) if any(own) else len(layers)
        self.names = {name for layer in layers for name in (layer.weight, layer.bias) if name is not None}
        self.floats = sum(layer.width for layer in layers)

    def forward(self, h: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Outputs (M, out, B) of h (in, B), which the members share, or (M, in, B), and what ``backward`` needs."""
        kept = []
        for layer in self.layers:
            inputs = h
            h = self._affine(layer, inputs)
            derivative = h
            if layer.activation is not None:
                h, derivative = layer.activation.apply(h)
            kept.append((inputs, derivative))
        return h, kept

    def backward(
        self,
        kept: list[tuple[Tensor, Tensor]],
        slopes: Tensor,
        *,
        onto: Mapping[str, Tensor],
        through: bool = False,
        aside: Aside | None = None,
    ) -> Tensor:
        """Add each layer's gradients to ``onto``, given those of the outputs; those of h, if they go ``through``.

        With ``aside`` the former are there once that has been waited for.
        """
        lowest = 0 if through else self._lowest
        below = slopes
        for depth in range(len(self.layers) - 1, lowest - 1, -1):
            layer, (inputs, derivative) = self.layers[depth], kept[depth]
            delta = below if layer.activation is None else layer.activation.pull(below, derivative)
            if depth > lowest or through:  # before the weights change, if ``onto`` are the weights
                below = torch.bmm(self._weights[layer.weight].transpose(1, 2), delta)
            if layer.weight in self._trained:
                add = partial(_add_outer, onto[layer.weight], delta, inputs)
                add() if aside is None else aside.do(add)
            if layer.bias is not None and layer.bias in self._trained:
                onto[layer.bias].add_(delta.sum(dim=2))
        return below

    def _affine(self, layer: DenseLayer, h: Tensor) -> Tensor:
        """W h + b for h (in, B), shared by the members, or (M, in, B): shape (M, out, B)."""
        weight = self._weights[layer.weight]
        if h.dim() == 2:
            z = (weight.flatten(0, 1) @ h).view(len(weight), layer.width, h.shape[1])
        elif _is_flat(weight):
            z = _by_pieces(weight[0], h[0]).unsqueeze(0)
        elif _are_large(weight):
            z = torch.stack([own @ columns for own, columns in zip(weight, h, strict=True)])
        else:
            z = torch.bmm(weight, h)
        return z if layer.bias is None else z.add_(self._weights[layer.bias].unsqueeze(2))


class StackedMLP(Ensemble):
    """M fully connected networks with weights (M, out, in).

    Samples that all members share make the first layer, forward and backward, one matrix product of M·width rows; that
    is where nearly all the work of a two-layer network lies.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        layers: list[DenseLayer],
        *,
        frozen: Sequence[str],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__(networks, frozen=frozen, dtype=dtype, device=device)
        self._stack = StackedLayers(layers, self.weights, self.trained)

    @property
    def first(self) -> str:
        """The name of the weight that meets the samples."""
        return self._stack.layers[0].weight

    def with_inputs(self, weight: Tensor) -> StackedMLP:
        """Networks with another first weight, (M, m, inputs) with any number of inputs, and the same others."""
        other = copy.copy(self)
        other.weights = {name: own.clone() for name, own in self.weights.items()}
        other.weights[self.first] = weight.to(self.weights[self.first])
        linear = self._template.get_submodule(self.first.rpartition(".")[0])
        replaced = {id(linear.weight): nn.Parameter(other.weights[self.first][0].clone())}
        other._template = copy.deepcopy(self._template, replaced)
        other._template.get_submodule(self.first.rpartition(".")[0]).in_features = weight.shape[2]  # type: ignore[assignment]
        other._apply = over_members(other._template)
        other._stack = StackedLayers(self._stack.layers, other.weights, other.trained)
        return other

    def floats_per_sample(self, sample: Tensor) -> int:  # noqa: ARG002
        return self.size * self._stack.floats

    def forward(self, x: Tensor, *, own: bool) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        outputs, kept = self._stack.forward(x.flatten(2).transpose(1, 2) if own else x.flatten(1).T)
        return outputs.transpose(1, 2), kept

    def backward(
        self, kept: list[tuple[Tensor, Tensor]], slopes: Tensor, *, onto: Mapping[str, Tensor]
    ) -> None:
        self._stack.backward(kept, slopes.transpose(1, 2), onto=onto)


def _are_large(weight: Tensor) -> bool:
    """Whether several products with these (M, out, in) take a GPU less time one by one, each cut along the inputs."""
    return len(weight) > 1 and weight[0].numel() >= _LARGE


def _is_flat(weight: Tensor) -> bool:
    """Whether one network's (1, out, in) has so few rows that a GPU's product would be few long sums."""
    few = len(weight) == 1 and weight.shape[1] <= _FEW
    return few and weight.is_cuda and weight.shape[2] >= 8 * _PIECE and weight.shape[2] % _PIECE == 0


def _by_pieces(weight: Tensor, h: Tensor) -> Tensor:
    """W h (out, B) of W (out, in) and h (in, B), as a sum of products over pieces of the inputs."""
    pieces = weight.shape[1] // _PIECE
    columns = weight.view(len(weight), pieces, _PIECE).transpose(0, 1)
    return torch.bmm(columns, h.view(pieces, _PIECE, h.shape[1])).sum(0)


def _add_outer(onto: Tensor, delta: Tensor, inputs: Tensor) -> None:
    """Add Σ over samples of δ hᵀ, from δ (M, out, B) and h (in, B) or (M, in, B), to (M, out, in)."""
    if inputs.dim() == 2:
        onto.view(-1, onto.shape[2]).addmm_(delta.flatten(0, 1), inputs.T)
    elif _are_large(onto):
        for own, slopes, columns in zip(onto, delta, inputs, strict=True):
            own.addmm_(slopes, columns.T)
    else:
        onto.baddbmm_(delta, inputs.transpose(1, 2))
