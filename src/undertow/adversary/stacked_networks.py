"""Several networks of one architecture as one function along a leading member axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import stack_module_state

from undertow.core.errors import ModelError
from undertow.core.layers import ActivationLayer, FlattenLayer, Layer, LinearLayer
from undertow.core.members import first_unlike, over_members
from undertow.core.networks import LayerChain, read_layers

__all__ = ["stacked"]


def stacked(nets: Sequence[nn.Module]) -> Callable[[Tensor], Tensor]:
    """A function (M, B, …) → (M, B, k) that applies the m-th network to the m-th batch.

    The weights are copied: training the networks further does not change it. Chains of
    Flatten, Linear and elementwise layers become batched matrix products; anything else is
    mapped over the members.

    >>> nets = [nn.Linear(3, 2) for _ in range(4)]
    >>> batched = stacked(nets)(torch.ones(4, 5, 3))
    >>> torch.allclose(batched[1], nets[1](torch.ones(5, 3)))
    True
    """
    _check_alike(nets)
    layers = [_layers_of_mlp(net) for net in nets]
    if None not in layers:
        return _stacked_mlp([each for each in layers if each is not None])
    parameters, buffers = stack_module_state(list(nets))
    parameters = {name: value.detach() for name, value in parameters.items()}
    apply = over_members(nets[0])
    return lambda x: apply(parameters, buffers, x, True)


def _check_alike(nets: Sequence[nn.Module]) -> None:
    if not nets:
        raise ModelError("an empty list of networks cannot be attacked: pass at least one")
    index = first_unlike(nets)
    if index is not None:
        raise ModelError(
            f"network {index} differs from network 0 in architecture: only networks of one architecture share a "
            f"member axis; attack it in a call of its own.\nnetwork 0: {nets[0]}\nnetwork {index}: {nets[index]}"
        )


def _layers_of_mlp(net: nn.Module) -> tuple[Layer, ...] | None:
    """The layers of a network of linear ones and known activations, with a flattening in front or none."""
    chain = read_layers(net)
    if not isinstance(chain, LayerChain) or not chain.at_work:
        return None
    # a flattening anywhere but in front would act on features that the product below has no axes for
    flat = isinstance(chain.at_work[0], FlattenLayer | LinearLayer)
    known = all(
        isinstance(layer, LinearLayer)
        or (isinstance(layer, ActivationLayer) and layer.activation is not None)
        for layer in chain.at_work_on_vectors
    )
    return chain.at_work if flat and known else None


def _stacked_mlp(networks: Sequence[Sequence[Layer]]) -> Callable[[Tensor], Tensor]:
    steps: list[Callable[[Tensor], Tensor]] = []
    for position, layer in enumerate(networks[0]):
        if isinstance(layer, FlattenLayer):
            steps.append(lambda x: x.flatten(2))
        elif isinstance(layer, ActivationLayer) and layer.activation is not None:
            steps.append(layer.activation.value)
        else:
            linears = [cast(nn.Linear, layers[position].module) for layers in networks]
            weight = torch.stack([linear.weight.detach() for linear in linears]).transpose(1, 2).contiguous()
            biases = [linear.bias for linear in linears]
            bias = None if biases[0] is None else torch.stack([b.detach() for b in biases]).unsqueeze(1)
            steps.append(_affine(weight, bias))

    def forward(x: Tensor) -> Tensor:
        for step in steps:
            x = step(x)
        return x

    return forward


def _affine(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    if bias is None:
        return lambda x: torch.bmm(x, weight)
    return lambda x: torch.baddbmm(bias, x, weight)
