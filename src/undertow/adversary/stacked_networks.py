"""Several networks of one architecture as one function along a leading member axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import stack_module_state

from undertow.core.errors import ModelError
from undertow.core.members import first_unlike, over_members
from undertow.core.sequences import unrolled

__all__ = ["stacked"]

_ELEMENTWISE = (
    nn.ReLU,
    nn.LeakyReLU,
    nn.Tanh,
    nn.GELU,
    nn.Sigmoid,
    nn.Softplus,
    nn.ELU,
    nn.SiLU,
    nn.Identity,
)


def stacked(nets: Sequence[nn.Module]) -> Callable[[Tensor], Tensor]:
    """A function (M, B, …) → (M, B, k) that applies the m-th network to the m-th batch.

    The weights are copied: training the networks further does not change it. Chains of
    Flatten, Linear and elementwise layers become batched matrix products; anything else is
    mapped over the members.

    >>> nets = [nn.Linear(3, 2) for _ in range(4)]
    >>> together = stacked(nets)(torch.ones(4, 5, 3))
    >>> torch.allclose(together[1], nets[1](torch.ones(5, 3)))
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


def _layers_of_mlp(net: nn.Module) -> list[nn.Module] | None:
    modules = unrolled(net) or []
    # a Flatten anywhere but in front would act on features that the product below has no axes for
    known = bool(modules) and type(modules[0]) in (nn.Linear, nn.Flatten)
    known = known and all(
        type(layer) in (nn.Linear, nn.Dropout, *_ELEMENTWISE) or (position == 0 and _flattens_all(layer))
        for position, layer in enumerate(modules)
    )
    return modules if known else None


def _flattens_all(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Flatten) and layer.start_dim == 1 and layer.end_dim == -1


def _stacked_mlp(networks: Sequence[Sequence[nn.Module]]) -> Callable[[Tensor], Tensor]:
    steps: list[Callable[[Tensor], Tensor]] = []
    for position, layer in enumerate(networks[0]):
        alike = [layers[position] for layers in networks]
        if isinstance(layer, nn.Flatten):
            steps.append(lambda x: x.flatten(2))
        elif isinstance(layer, nn.Linear):
            linears = [cast(nn.Linear, each) for each in alike]
            weight = torch.stack([linear.weight.detach() for linear in linears]).transpose(1, 2).contiguous()
            biases = [linear.bias for linear in linears]
            bias = None if biases[0] is None else torch.stack([b.detach() for b in biases]).unsqueeze(1)
            steps.append(_affine(weight, bias))
        elif not isinstance(layer, nn.Dropout):  # in eval mode it does nothing
            steps.append(layer)

    def forward(x: Tensor) -> Tensor:
        for step in steps:
            x = step(x)
        return x

    return forward


def _affine(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    if bias is None:
        return lambda x: torch.bmm(x, weight)
    return lambda x: torch.baddbmm(bias, x, weight)
