"""Modules around a network: they run it as it stands, and know which samples a batch holds."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["Enclosing", "innermost", "rows_of"]


class Enclosing(nn.Module):
    """A module around ``net`` that runs it: a part of it, or itself with what some batch of samples needs beside x.

    Its parts go by their names in the network that is enclosed.
    """

    net: nn.Module

    def take(self, index: Tensor) -> Enclosing:
        """The same for some of the samples, in that order."""
        raise NotImplementedError


def innermost(net: nn.Module) -> nn.Module:
    """The network itself, whose modules and parameters have the names that its owner knows.

    >>> layer = nn.Linear(1, 1)
    >>> innermost(layer) is layer
    True
    """
    while isinstance(net, Enclosing):
        net = net.net
    return net


def rows_of(f: Callable[..., Tensor], index: Tensor | slice) -> Callable[..., Tensor]:
    """``f`` for some of the samples in that order: itself, unless samples have rows of their own beside x."""
    if not isinstance(f, Enclosing):
        return f
    if isinstance(index, slice):
        index = torch.arange(index.start or 0, index.stop)
    return f.take(index)
