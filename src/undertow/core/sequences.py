"""Networks that are read layer by layer instead of being called: only where the layers are all there is to them."""

from __future__ import annotations

from torch import nn

__all__ = ["as_it_looks", "unrolled"]


def as_it_looks(module: nn.Module) -> bool:
    """Whether a module computes what its class does: no hook and no ``forward`` of its own changes that."""
    return not (module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))


def unrolled(net: object) -> list[nn.Module] | None:
    """The modules of a network in the order they run, nested ``nn.Sequential`` opened; None where more happens.

    A subclass of ``nn.Sequential`` may do anything and is one module.

    >>> net = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    >>> [type(module).__name__ for module in unrolled(net)]
    ['Flatten', 'Linear', 'ReLU']
    >>> _ = net[1][0].register_forward_hook(print)
    >>> unrolled(net) is None
    True
    """
    if not isinstance(net, nn.Module) or not as_it_looks(net):
        return None
    if type(net) is not nn.Sequential:
        return [net]
    modules: list[nn.Module] = []
    for child in net:
        below = unrolled(child)
        if below is None:
            return None
        modules += below
    return modules
