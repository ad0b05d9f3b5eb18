"""Fully connected networks as one: stacked weights, matrix products, gradients written by hand."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from undertow.core.members import over_members
from undertow.core.networks import NotAChain, read_dense
from undertow.training.elementwise_gradients import ElementwiseActivation, elementwise_gradient
from undertow.training.ensemble import Ensemble

__all__ = ["StackedMLP", "dense_layers"]


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


class StackedMLP(Ensemble):
    """M fully connected networks with weights (M, out, in).

    Samples are columns, so that every product of a layer is (M, out, in) @ (M, in, B) without a transposed
    copy. Samples that all members share make the first layer, forward and backward, one matrix product of
    M·width rows; that is where nearly all the work of a two-layer network lies.
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
        self._layers = layers
        trained = [layer.weight in self.trained or layer.bias in self.trained for layer in layers]
        self._lowest = trained.index(True) if any(trained) else len(layers)

    @property
    def first(self) -> str:
        """The name of the weight that meets the samples."""
        return self._layers[0].weight

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
        return other

    def floats_per_sample(self, sample: Tensor) -> int:  # noqa: ARG002
        return self.size * sum(layer.width for layer in self._layers)

    def forward(self, x: Tensor, *, own: bool) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        h = x.flatten(2).transpose(1, 2) if own else x.flatten(1).T
        kept = []
        for layer in self._layers:
            inputs = h
            h = self._affine(layer, inputs)
            derivative = h
            if layer.activation is not None:
                h, derivative = layer.activation.apply(h)
            kept.append((inputs, derivative))
        return h.transpose(1, 2), kept

    def backward(
        self, kept: list[tuple[Tensor, Tensor]], slopes: Tensor, *, onto: Mapping[str, Tensor]
    ) -> None:
        below = slopes.transpose(1, 2)
        for depth in range(len(self._layers) - 1, self._lowest - 1, -1):
            layer, (inputs, derivative) = self._layers[depth], kept[depth]
            delta = below if layer.activation is None else layer.activation.pull(below, derivative)
            if depth > self._lowest:  # before the weights change, if ``onto`` are the weights
                below = torch.bmm(self.weights[layer.weight].transpose(1, 2), delta)
            if layer.weight in self.trained:
                _add_outer(onto[layer.weight], delta, inputs)
            if layer.bias is not None and layer.bias in self.trained:
                onto[layer.bias].add_(delta.sum(dim=2))

    def _affine(self, layer: DenseLayer, h: Tensor) -> Tensor:
        """W h + b for h (in, B), shared by the members, or (M, in, B): shape (M, out, B)."""
        weight = self.weights[layer.weight]
        if h.dim() == 2:
            z = (weight.flatten(0, 1) @ h).view(self.size, layer.width, h.shape[1])
        else:
            z = torch.bmm(weight, h)
        return z if layer.bias is None else z.add_(self.weights[layer.bias].unsqueeze(2))


def _add_outer(onto: Tensor, delta: Tensor, inputs: Tensor) -> None:
    """Add Σ over samples of δ hᵀ, from δ (M, out, B) and h (in, B) or (M, in, B), to (M, out, in)."""
    if inputs.dim() == 2:
        onto.view(-1, onto.shape[2]).addmm_(delta.flatten(0, 1), inputs.T)
    else:
        onto.baddbmm_(delta, inputs.transpose(1, 2))
