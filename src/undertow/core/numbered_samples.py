"""Samples known by their numbers, where a network takes more of each than x: cut and reordered as one tensor is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from undertow.core.adapting import Adapted, named_rows
from undertow.core.errors import InputError
from undertow.core.outputs import OutputChoice

__all__ = ["Given", "given_beside", "numbered"]


class Given(NamedTuple):
    """A network as its owner wrote it, and what it is called with."""

    net: nn.Module
    x: Tensor
    output: OutputChoice
    extras: dict[str, Any]


def given_beside(
    net: nn.Module, x: Tensor, *, output: OutputChoice = None, extras: Mapping[str, Any] | None = None
) -> Given:
    """What is measured of a network's weights: an adapted one taken apart again, so that its parameters have its names.

    Extras without a row for each sample, or that the network does not take, are refused.
    """
    if not isinstance(net, Adapted) or net.last:
        return Given(net, x, output, named_rows(net, x, extras) if extras else {})
    if output is not None or extras:
        raise InputError("this network has been prepared with its output and extras: leave both out.")
    tokens = net.tokens if net.entry is not None else x
    assert isinstance(tokens, Tensor)
    return Given(net.net, tokens, net.output, net.extras)


def numbered(net: nn.Module, x: Tensor, extras: Mapping[str, Any]) -> tuple[Tensor, RemovableHandle]:
    """The numbers (N,) of the samples, which stand for x until the handle is removed: each is given its own rows.

    Floating rows arrive in the precision of the network's parameters.

    >>> class Masked(nn.Linear):
    ...     def forward(self, x, mask): return super().forward(x * mask)
    >>> net, x, mask = Masked(2, 1), torch.eye(2), torch.tensor([[1, 0], [0, 0]])
    >>> numbers, handle = numbered(net, x, {"mask": mask})
    >>> with handle:
    ...     found = net(numbers.flip(0))
    >>> torch.equal(found.flip(0), net(x, mask))
    True
    """
    rows = {name: extra for name, extra in extras.items() if isinstance(extra, Tensor)}

    def look_up(
        module: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
        like = next((p for p in module.parameters() if p.is_floating_point()), None)

        def of(held: Tensor) -> Tensor:
            own = held[args[0]]
            return own if like is None or not own.is_floating_point() else own.to(like.dtype)

        beside = {name: of(rows[name]) if name in rows else extra for name, extra in extras.items()}
        return (of(x),), {**kwargs, **beside}

    handle = net.register_forward_pre_hook(look_up, prepend=True, with_kwargs=True)
    return torch.arange(len(x), device=x.device), handle
