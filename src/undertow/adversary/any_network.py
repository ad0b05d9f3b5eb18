"""Networks as other people write them, made ready to be attacked: tokens, several outputs, extras, wrappers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from undertow.adversary.classifier import Classifier, Net
from undertow.core.adapting import Adapted, adapted
from undertow.core.errors import InputError
from undertow.core.eval_mode import set_eval
from undertow.core.network_copies import copy_of
from undertow.core.outputs import OutputChoice
from undertow.core.plain_words import check_tensor
from undertow.core.unwrapping import unwrapped

__all__ = ["ready_to_attack", "sample_by_sample"]

_COARSE = (torch.float16, torch.bfloat16)
Attackable = Classifier | Net | Sequence[nn.Module]


def ready_to_attack(
    net: Attackable, x: Tensor, *, output: OutputChoice = None, extras: Mapping[str, Any] | None = None
) -> tuple[Attackable, Tensor]:
    """The network as a function of one floating tensor, and the samples in its space; itself where it is one.

    Of token ids radii are in the space of the embedding. Half precision is attacked as a copy in float32.

    >>> layer, x = nn.Linear(2, 1), torch.ones(1, 2)
    >>> ready_to_attack(layer, x)[0] is layer
    True
    """
    check_tensor(x)
    inside = net.net if isinstance(net, Classifier) and net.members is None else net
    if not isinstance(inside, nn.Module):
        if output is not None or extras:
            raise InputError(
                "output=… and extras=… are for one network, a torch.nn.Module or a Classifier around it: give several "
                "one by one, and let a function choose and pass them itself."
            )
        return net, x
    found, x = _adapted(inside, x, output, extras)
    if not isinstance(net, Classifier):
        return found, x
    return (net if found is inside else replace(net, net=found)), x


def _adapted(
    net: nn.Module, x: Tensor, output: OutputChoice, extras: Mapping[str, Any] | None
) -> tuple[nn.Module, Tensor]:
    net = unwrapped(net)
    if any(parameter.dtype in _COARSE for parameter in net.parameters()):
        net = copy_of(net).float()
    x = x.float() if x.dtype in _COARSE else x
    modes = [(module, module.training) for module in net.modules()]
    try:
        set_eval(net)
        return adapted(net, x, output=output, extras=extras)
    finally:
        for module, training in modes:
            module.training = training


def sample_by_sample(
    classifier: Classifier, x: Tensor, y: Tensor | None
) -> Iterator[tuple[Classifier, slice]] | None:
    """Each sample with the network that has its rows; None where samples have the same, and are attacked at once.

    An attack asks for many inputs near each sample, in batches of its own making.
    """
    net = classifier.net
    if not isinstance(net, Adapted) or net.alike:
        return None
    if y is not None and y.shape != (len(x),):
        raise InputError(
            f"there are {len(x)} samples, and y has shape {tuple(y.shape)}: give one label for each."
        )
    return (
        (replace(classifier, net=net.take(torch.tensor([index]))), slice(index, index + 1))
        for index in range(len(x))
    )
