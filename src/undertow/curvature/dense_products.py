"""Curvature products of fully connected networks, as matrix products written by hand.

With z_l = W_l h_{l−1} + b_l, h_l = σ(z_l), δ_l = ∂L/∂z_l, and R the derivative along (V, v) (Pearlmutter 1994),

    R z_l = V_l h_{l−1} + W_l R h_{l−1} + v_l ,                    R h_l = σ′(z_l) ∘ R z_l ,
    R g_l = W_{l+1}ᵀ R δ_{l+1} + V_{l+1}ᵀ δ_{l+1} ,                 R δ_l = σ′ ∘ R g_l + (g_l ∘ σ″) ∘ R z_l ,
    (H v)_{W_l} = R δ_l h_{l−1}ᵀ + δ_l (R h_{l−1})ᵀ ,               (H v)_{b_l} = Σ R δ_l ,

g_l = ∂L/∂h_l. All that does not depend on the vector is kept: h, σ′, δ and g ∘ σ″. The first layer, which of images is
nearly all of the network, then costs two products. The Gauss–Newton matrix is the same without the terms in δ and g.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from undertow.core.networks import NotAChain, read_dense
from undertow.curvature.kept_gradients import kept_gradients

__all__ = ["DenseNetwork", "dense_network"]

VectorProduct = Callable[[Mapping[str, Tensor]], dict[str, Tensor]]


@dataclass(frozen=True)
class DenseNetwork:
    """Names of the weights and biases of the layers, each with the activation behind it or None, and their widths."""

    weights: tuple[str, ...]
    biases: tuple[str | None, ...]
    activations: tuple[nn.Module | None, ...]
    widths: tuple[int, ...]

    def floats_per_sample(self, members: int) -> int:
        """What is kept of a sample, and what a product needs for it."""
        return 8 * members * sum(self.widths)

    def product(
        self,
        state: Mapping[str, Tensor],
        x: Tensor,
        total: Callable[[Tensor], Tensor],
        *,
        hessian: bool,
    ) -> VectorProduct:
        """The product for weights (M, …) on samples (n, …): from directions (M, …) by name to images (M, …).

        ``total`` is the loss as a function of all outputs (M, n, k). Of one network (M = 1) any number of directions
        may be given at once.
        """
        layers = _forward(self, state, x)
        scores = layers[-1].h.mT.detach().requires_grad_()  # (M, n, k)
        with torch.enable_grad():
            (slope,) = kept_gradients([total(scores)], [scores], create_graph=True)
        if hessian:
            _backward(layers, slope.detach().mT)
        for layer in layers:
            layer.second = None

        def product(along: Mapping[str, Tensor]) -> dict[str, Tensor]:
            moved = _moved_forward(layers, along)
            if moved is None:
                return {name: torch.zeros_like(piece) for name, piece in along.items()}
            count = len(moved)
            if count == len(scores):
                (bent,) = kept_gradients([slope], [scores], [moved.mT])
                return _moved_backward(layers, along, bent.mT)
            bent = torch.cat([kept_gradients([slope], [scores], [each.mT[None]])[0] for each in moved])
            return _moved_backward(layers, along, bent.mT)

        return product


def dense_network(net: nn.Module, x: Tensor) -> DenseNetwork | None:
    """The layers of a network that has nothing but linear layers and activations of the table; None for any other.

    >>> dense_network(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)), torch.ones(2, 4)).weights
    ('0.weight', '2.weight')
    """
    chain = read_dense(net, inputs=x)
    if isinstance(chain, NotAChain) or not x.is_floating_point():
        return None
    if any(each is not None and each.activation is None for each in chain.activations):
        return None
    names = [f"{name}." if name else "" for name in chain.names]
    biases = [linear.bias is not None for linear in chain.linears]
    parameters = len(list(net.parameters()))
    if parameters != len(names) + sum(biases):  # shared by layers, or of an activation
        return None
    return DenseNetwork(
        tuple(f"{name}weight" for name in names),
        tuple(f"{name}bias" if there else None for name, there in zip(names, biases, strict=True)),
        tuple(None if each is None else each.module for each in chain.activations),
        tuple(linear.out_features for linear in chain.linears),
    )


@dataclass
class _Layer:
    """One layer with what is kept of it: samples are columns, (M, width, n), or (inputs, n) where all share them."""

    weight_name: str
    bias_name: str | None
    weight: Tensor
    inputs: Tensor
    h: Tensor
    slope: Tensor | None
    second: Tensor | None
    delta: Tensor | None = None
    bend: Tensor | None = None
    moved_inputs: Tensor | None = None
    moved_z: Tensor | None = None


def _forward(network: DenseNetwork, state: Mapping[str, Tensor], x: Tensor) -> list[_Layer]:
    h = x.detach().flatten(1).T
    layers = []
    for place, name in enumerate(network.weights):
        bias_name, activation = network.biases[place], network.activations[place]
        weight, inputs = state[name].detach(), h
        z = _times(weight, inputs)
        if bias_name is not None:
            z = z + state[bias_name].detach().unsqueeze(2)
        h, slope, second = (z, None, None) if activation is None else _derivatives(activation, z)
        layers.append(_Layer(name, bias_name, weight, inputs, h, slope, second))
    return layers


def _derivatives(activation: nn.Module, z: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """σ, σ′ and σ″ as autograd has them, so that all products agree at kinks; None for a σ″ that is zero."""
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        value = activation(z.clone())  # it may work in place
        (slope,) = torch.autograd.grad(value, z, torch.ones_like(value), create_graph=True)
        (second,) = kept_gradients([slope], [z], [torch.ones_like(slope)])
    return value.detach(), slope.detach(), second if bool((second != 0).any()) else None


def _backward(layers: list[_Layer], slope: Tensor) -> None:
    """δ and g ∘ σ″ of every layer, from the last on."""
    for place in range(len(layers) - 1, -1, -1):
        layer = layers[place]
        layer.bend = None if layer.second is None else slope * layer.second
        layer.delta = slope if layer.slope is None else slope * layer.slope
        if place > 0:
            slope = torch.bmm(layer.weight.mT, layer.delta)


def _moved_forward(layers: list[_Layer], along: Mapping[str, Tensor]) -> Tensor | None:
    """R h of the last layer, and on the way R h and R z of all; None where nothing moves."""
    moved: Tensor | None = None
    for layer in layers:
        weight, bias = along.get(layer.weight_name), along.get(layer.bias_name or "")
        moved_z = None if weight is None else _times(weight, layer.inputs)
        if moved is not None:
            own = _matched(layer.weight, moved)
            moved_z = torch.bmm(own, moved) if moved_z is None else moved_z.baddbmm_(own, moved)
        if bias is not None:
            shift = bias.unsqueeze(2)
            moved_z = shift.expand(-1, -1, layer.h.shape[2]) if moved_z is None else moved_z.add_(shift)
        layer.moved_inputs, layer.moved_z = moved, moved_z
        moved = moved_z if moved_z is None or layer.slope is None else layer.slope * moved_z
    return moved


def _moved_backward(layers: list[_Layer], along: Mapping[str, Tensor], bent: Tensor) -> dict[str, Tensor]:
    """The product, from what R does to the gradient by the outputs."""
    found: dict[str, Tensor] = {}
    lowest = next(
        place for place, layer in enumerate(layers) if {layer.weight_name, layer.bias_name} & along.keys()
    )
    for place in range(len(layers) - 1, lowest - 1, -1):
        layer = layers[place]
        moved_delta = bent if layer.slope is None else bent * layer.slope
        if layer.bend is not None and layer.moved_z is not None:
            moved_delta = moved_delta.addcmul_(layer.bend, layer.moved_z)
        if layer.weight_name in along:
            found[layer.weight_name] = _outer(layer, moved_delta)
        if layer.bias_name in along:
            assert layer.bias_name is not None
            found[layer.bias_name] = moved_delta.sum(2)
        if place > lowest:
            bent = torch.bmm(_matched(layer.weight.mT, moved_delta), moved_delta)
            weight = along.get(layer.weight_name)
            if weight is not None and layer.delta is not None:
                bent = bent.baddbmm_(weight.mT, _matched(layer.delta, bent))
        layer.moved_inputs = layer.moved_z = None
    return found


def _outer(layer: _Layer, moved_delta: Tensor) -> Tensor:
    """R δ hᵀ + δ (R h)ᵀ."""
    if layer.inputs.dim() == 2:
        flat = moved_delta.flatten(0, 1) @ layer.inputs.T
        return flat.view(len(moved_delta), -1, flat.shape[1])
    image = torch.bmm(moved_delta, _matched(layer.inputs, moved_delta).mT)
    if layer.delta is not None and layer.moved_inputs is not None:
        image = image.baddbmm_(_matched(layer.delta, image), layer.moved_inputs.mT)
    return image


def _times(weight: Tensor, h: Tensor) -> Tensor:
    """W h for W (M, out, in) and h (in, n), which all share, or (M, in, n)."""
    if h.dim() == 2:
        return (weight.flatten(0, 1) @ h).view(len(weight), -1, h.shape[1])
    return torch.bmm(weight, _matched(h, weight))


def _matched(tensor: Tensor, other: Tensor) -> Tensor:
    """One network's tensor for as many directions as the other has; a member's own otherwise."""
    return tensor if len(tensor) == len(other) else tensor.expand(len(other), -1, -1)
