"""Measuring leaves no trace: mode, gradients and random states are what they were, also after an error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn

from undertow.core.deadline import whatever_the_time
from undertow.core.eval_mode import set_eval
from undertow.jacobian.trace import leave_no_trace

__all__ = ["preserve_state"]


@contextlib.contextmanager
def preserve_state(net: nn.Module) -> Iterator[nn.Module]:
    """The network in eval mode; afterwards each module's mode, each ``.grad`` and every RNG is as before.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Dropout()).train()
    >>> with preserve_state(net):
    ...     net.training
    False
    >>> net.training
    True
    """
    gradients = [(p, p.grad, None if p.grad is None else p.grad.clone()) for p in net.parameters()]
    device = next((p.device for p in net.parameters()), None)
    with leave_no_trace(net, device=device):
        set_eval(net)
        try:
            yield net
        finally:
            # Measures of undertow never write a gradient; one that a user brings may.
            with whatever_the_time():
                for parameter, gradient, values in gradients:
                    if gradient is not None and values is not None:
                        gradient.copy_(values)
                    if parameter.grad is not gradient:
                        parameter.grad = gradient
