"""The norms of many tails of a network, each ending at another seam, from products that several of them share.

What a product with a small network's Jacobians takes is mostly the time of launching its operations, whether on eight
samples or on sixty. So the samples follow one another several times, once for each of several tails, and one pass
over all of them serves these. Seams that follow one another lie at nearly the same depth: little is computed in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from undertow.core.enclosing import Enclosing, innermost, rows_of
from undertow.core.errors import SeamError
from undertow.core.outputs import first_tensor, with_first_tensor
from undertow.core.status import Status
from undertow.jacobian.cutting import Reached
from undertow.jacobian.memory import graph_bytes
from undertow.jacobian.norms import norms_at
from undertow.jacobian.precisions import NetworkSamples
from undertow.jacobian.result import JacobianNorms

__all__ = ["Tails", "tail_norms"]

_ROWS, _BYTES = 64, 2**28
"""Samples, and bytes of autograd's graph, up to which a pass over more costs less than another pass does."""
_SHARE = 4
"""No more than this part of all tails together, or too much would be computed beyond the seams of the first of them."""


def tail_norms(
    samples: NetworkSamples, names: Sequence[str], tails: Sequence[NetworkSamples], **options: Any
) -> list[JacobianNorms]:
    """‖J‖₂ of the tails that end at these seams, at samples of a network that has been checked.

    ``tails`` are the same ones by themselves, for those that share nothing: layers that need no autograd, and tails of
    a large network or of many samples. Options as in :func:`norms_at`.

    >>> net = nn.Sequential(nn.Linear(1, 1), nn.Sigmoid(), nn.Unflatten(1, (1, 1)), nn.Linear(1, 1))
    >>> _ = net.requires_grad_(False)[0].weight.fill_(4.0), net[0].bias.fill_(0.0)
    >>> given, names = NetworkSamples(net, torch.zeros(2, 1)), ["0", "1", "2"]
    >>> alone = [NetworkSamples(net[:end], given.x) for end in (1, 2, 3)]
    >>> [norms.value.tolist() for norms in tail_norms(given, names, alone)]
    [[4.0, 4.0], [1.0, 1.0], [1.0, 1.0]]
    """
    count, chunk = len(samples.x), options.get("chunk")
    most = min(_ROWS // count, _BYTES // (count * graph_bytes(samples.f, samples.x)), len(names) // _SHARE)
    most = most if chunk is None else min(most, chunk // count)
    sizes = _sizes(cast(nn.Module, samples.f), names, samples.x)
    found: list[JacobianNorms] = []
    for places in _shares(tails, sizes, samples.x[0].numel(), most):
        if len(places) == 1:
            found.append(norms_at(tails[places[0]], **options))
        else:
            found += _together(
                samples, [names[place] for place in places], max(sizes[places[0] : places[-1] + 1]), options
            )
    return found


def _shares(
    tails: Sequence[NetworkSamples], sizes: Sequence[int], inputs: int, most: int
) -> Iterator[list[int]]:
    """Places of tails that share their products: neighbours whose Jacobians are of one size on the smaller side."""

    def kind(place: int) -> tuple[bool, int]:
        return tails[place].structured, min(sizes[place], inputs)

    for (structured, _), alike in groupby(range(len(tails)), kind):
        places = list(alike)
        share = 1 if structured else max(1, most)
        # Of nearly one size: fifty tails of which forty-eight fit are two times twenty-five.
        parts = -(-len(places) // share)
        yield from (
            places[len(places) * part // parts : len(places) * (part + 1) // parts] for part in range(parts)
        )


def _together(
    samples: NetworkSamples, names: Sequence[str], width: int, options: dict[str, Any]
) -> list[JacobianNorms]:
    count = len(samples.x)
    index = torch.arange(count, device=samples.x.device).repeat(len(names))
    which = torch.arange(len(names)).repeat_interleave(count)
    net = Tails(cast(nn.Module, rows_of(samples.f, index)), names, which, width)
    every = NetworkSamples(
        net,
        samples.x[index],
        samples.arithmetic,
        products=samples.products,
        runs=which.to(samples.x.device),
    )
    norms = norms_at(every, **options)
    parts = (slice(place * count, (place + 1) * count) for place in range(len(names)))
    return [norms.part(part, good=Status.CONVERGED) for part in parts]


def _sizes(net: nn.Module, names: Sequence[str], x: Tensor) -> list[int]:
    """How many numbers there are at every seam."""
    first = rows_of(net, slice(0, 1))
    found = Tails(cast(nn.Module, first), names, torch.arange(len(names)), 0)
    with torch.no_grad():
        values = found.values(x[:1].clone(), names)
    return [values[name][0].numel() for name in names]


class Tails(Enclosing):
    """Of each sample what the tail that is ``which`` of its own makes of it, followed by zeros: (N, ``width``).

    Zeros have a Jacobian of zeros, which leaves the norm what it is.
    """

    def __init__(self, net: nn.Module, names: Sequence[str], which: Tensor, width: int) -> None:
        super().__init__()
        self.net, self.names, self.which, self.width = net, tuple(names), which, width
        self.training = net.training

    def take(self, index: Tensor) -> Tails:
        net = cast(nn.Module, rows_of(self.net, index))
        return Tails(net, self.names, self.which[index.to(self.which.device)], self.width)

    def forward(self, value: Tensor) -> Tensor:
        places = sorted(set(self.which.tolist()))
        values = self.values(value, [self.names[place] for place in places])
        parts, order = [], []
        for place in places:
            own = (self.which == place).nonzero()[:, 0]
            order.append(own)
            rows = values[self.names[place]].flatten(1)
            rows = rows if len(places) == 1 else rows[own.to(value.device)]
            parts.append(functional.pad(rows, (0, self.width - rows.shape[1])))
        if len(places) == 1:
            return parts[0]
        found, back = torch.cat(parts), torch.cat(order).argsort()
        in_order = torch.equal(back, torch.arange(len(back)))
        return found if in_order else found[back.to(value.device)]

    def values(self, value: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
        """What the modules of these names return; the pass ends where all of them have."""
        found: dict[str, Tensor] = {}

        def keep(name: str) -> Callable[[nn.Module, object, object], object]:
            def hook(_module: nn.Module, _args: object, output: object) -> object:
                tensor = first_tensor(output)
                if tensor is None:
                    raise SeamError(f"{name!r} returns no tensor: cut at a module that does.")
                found[name] = tensor
                if len(found) == len(names):
                    raise Reached(self)
                # What follows may work in place, and gets a copy.
                return with_first_tensor(output, tensor.clone())

            return hook

        inner = innermost(self.net)
        hooks = [inner.get_submodule(name).register_forward_hook(keep(name)) for name in names]
        try:
            self.net(value)
        except Reached as reached:
            if reached.part is not self:
                raise
            return found
        finally:
            for hook in hooks:
                hook.remove()
        never = next(name for name in names if name not in found)
        raise SeamError(f"the forward pass never ran {never!r}: choose a module that it runs.")

    def extra_repr(self) -> str:
        return f"from the input to {', '.join(self.names)}"
