"""Networks as other people write them, made ready to be attacked: tokens, several outputs, extras, wrappers."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from undertow.core.adapting import Adapted, adapted
from undertow.core.outputs import OutputChoice
from undertow.core.unwrapping import unwrapped

__all__ = ["ready_to_attack", "sample_by_sample"]

_COARSE = (torch.float16, torch.bfloat16)


def ready_to_attack(
    net: nn.Module, x: Tensor, *, output: OutputChoice = None, extras: Mapping[str, Any] | None = None
) -> tuple[nn.Module, Tensor]:
    """The network as a function of one floating tensor, and the samples in its space; itself where it is one.

    Of token ids radii are in the space of the embedding. Half precision is attacked as a copy in float32.

    >>> layer, x = nn.Linear(2, 1), torch.ones(1, 2)
    >>> ready_to_attack(layer, x)[0] is layer
    True
    """
    net = unwrapped(net)
    if any(parameter.dtype in _COARSE for parameter in net.parameters()):
        net = copy.deepcopy(net).float()
    x = x.float() if x.dtype in _COARSE else x
    modes = [(module, module.training) for module in net.modules()]
    try:
        net.eval()
        return adapted(net, x, output=output, extras=extras)
    finally:
        for module, training in modes:
            module.training = training


def sample_by_sample(net: object, count: int) -> Iterator[tuple[nn.Module, slice]] | None:
    """Each sample with the network that has its rows; None where samples have the same, and are attacked at once.

    An attack asks for many inputs near each sample, in batches of its own making.
    """
    if not isinstance(net, Adapted) or net.alike:
        return None
    return ((net.take(torch.tensor([index])), slice(index, index + 1)) for index in range(count))
