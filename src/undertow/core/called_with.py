"""Calling a network with other tensors in the place of its parameters, also where it uses one of them twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

__all__ = ["called_with"]


def called_with(net: nn.Module, weights: Mapping[str, Tensor], x: Tensor) -> Any:
    """net(x) with the ``weights`` in the place of its parameters of these names; the network is as it was afterwards.

    Names are those of ``named_parameters``: a parameter that several places share has one, and all of them get its
    tensor. ``torch.func.functional_call`` by itself puts a tensor into a module that is registered twice and never
    takes it out again.

    >>> import torch
    >>> shared = nn.Linear(1, 1, bias=False)
    >>> _ = shared.weight.data.fill_(2.0)
    >>> net = nn.Sequential(shared, nn.ReLU(), shared)
    >>> called_with(net, {"0.weight": torch.tensor([[3.0]])}, torch.ones(1, 1)).item(), net(torch.ones(1, 1)).item()
    (9.0, 4.0)
    """
    places: dict[int, list[str]] = {}
    for (
        name,
        module,
    ) in net.named_modules():  # each module once: one that has two names is set under the first
        for key, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            places.setdefault(id(parameter), []).append(f"{name}.{key}".lstrip("."))
    aliases = {names[0]: names for names in places.values()}
    everywhere = {place: value for name, value in weights.items() for place in aliases.get(name, [name])}
    return functional_call(net, everywhere, (x,), tie_weights=False)
