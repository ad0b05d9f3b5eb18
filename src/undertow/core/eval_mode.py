"""A network in eval mode for a while, every module's own mode put back afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn

__all__ = ["eval_mode", "set_eval"]


def set_eval(net: nn.Module) -> None:
    """Every module's flag alone, for whoever puts the flags back.

    ``net.eval()`` may do more: loralib's layers add their update to the weight, and never take it off again where only
    the flag is put back; an exported network has none.
    """
    for module in net.modules():
        if module.training:
            module.training = False


@contextlib.contextmanager
def eval_mode(net: nn.Module) -> Iterator[nn.Module]:
    """The network with all its modules in eval mode, also where some were in train mode and some were not.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).train()
    >>> _ = net[1].eval()
    >>> with eval_mode(net):
    ...     [module.training for module in net]
    [False, False]
    >>> [module.training for module in net]
    [True, False]
    """
    modes = [(module, module.training) for module in net.modules()]
    set_eval(net)
    try:
        yield net
    finally:
        for module, training in modes:
            module.training = training
