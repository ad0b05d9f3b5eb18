"""Measuring leaves no trace: mode, gradients and random states are what they were, also after an error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

__all__ = ["untouched"]


@contextlib.contextmanager
def untouched(net: nn.Module) -> Iterator[nn.Module]:
    """The network in eval mode; afterwards each module's mode, each ``.grad`` and every RNG is as before.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Dropout()).train()
    >>> with untouched(net):
    ...     net.training
    False
    >>> net.training
    True
    """
    # Modules are restored one by one: a frozen BatchNorm inside a training network stays in eval mode.
    modes = [(module, module.training) for module in net.modules()]
    gradients = [(p, p.grad, None if p.grad is None else p.grad.clone()) for p in net.parameters()]
    devices = sorted({p.device.index for p in net.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices):
        net.eval()
        try:
            yield net
        finally:
            for module, mode in modes:
                module.training = mode
            for parameter, gradient, values in gradients:
                if gradient is not None and values is not None:
                    gradient.copy_(values)
                parameter.grad = gradient
