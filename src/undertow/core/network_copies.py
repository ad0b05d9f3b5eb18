"""Copies of a network, in its own precision or another."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from undertow.core.grouped_products import GroupedProducts

__all__ = ["copy_in", "copy_of"]

_M = TypeVar("_M", bound=nn.Module)


def copy_in(net: _M, dtype: torch.dtype) -> _M:
    """A copy of the network in a precision; modules with a matrix for each of several experts run within that mode.

    >>> net = nn.Linear(1, 1)
    >>> copy_in(net, torch.float64).weight.dtype, net.weight.dtype
    (torch.float64, torch.float32)
    """
    with torch.inference_mode(False):  # of a copy made within it no derivative could be taken
        copied = copy_of(net).to(dtype)
    for module in copied.modules():
        stacked = any(each.dim() == 3 for each in module.parameters(recurse=False))
        if (
            stacked
            and not isinstance(module, nn.modules.conv._ConvNd)
            and not isinstance(module.forward, _Within)
        ):
            module.forward = _Within(module.forward)
    return copied


def copy_of(net: _M) -> _M:
    """A deep copy, also of a network that keeps what it has computed of its weights: pruned, or normalised by hooks.

    Such a layer makes its weight anew in every forward pass and leaves the last one lying, with a graph, which PyTorch
    does not copy.

    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(2, 1), "weight", 1)
    >>> _ = layer(torch.ones(1, 2))
    >>> bool((copy_of(layer).weight == layer.weight).all())
    True
    """
    computed = {
        id(value): value.detach().clone()
        for module in net.modules()
        for value in vars(module).values()
        if isinstance(value, Tensor) and not value.is_leaf
    }
    return copy.deepcopy(net, dict(computed))


class _Within:
    """A module's forward within the mode; a copy of the module has one of its own."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.forward = forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with GroupedProducts():
            return self.forward(*args, **kwargs)
