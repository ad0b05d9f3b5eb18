"""The Jacobian norms of all parts of a chain of modules, of one network or of many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from torch import Tensor, nn

from undertow.core.networks import DenseChain, read_dense
from undertow.jacobian.batched_norms import layers_alike, span_norms
from undertow.jacobian.cutting import chain
from undertow.jacobian.norms import JacobianNorms, jacobian_norms, norms_at
from undertow.jacobian.precisions import NetworkSamples
from undertow.jacobian.trace import leave_no_trace

__all__ = ["ChainNorms", "batched_chain_norms", "chain_norms"]


@dataclass(frozen=True)
class ChainNorms:
    """The norms of every module f_l of a chain, and of all modules up to it: f_1, f_2 ∘ f_1, … the whole network."""

    modules: Sequence[JacobianNorms]
    prefixes: Sequence[JacobianNorms]


def chain_norms(
    net: nn.Module,
    x: Tensor,
    *,
    seams: Sequence[str],
    start: Tensor | None = None,
    keep_vectors: bool = False,
    **options: Any,
) -> ChainNorms:
    """What ``along_chain`` needs of a network at the samples (N, …); options as in ``jacobian_norms``.

    ``start`` and ``keep_vectors`` are for the first module.
    """
    parts = chain(net, seams, x=x)
    first = jacobian_norms(parts[0], x, start=start, keep_vectors=keep_vectors, **options)
    modules, prefixes = [first], [first]
    with leave_no_trace(net, device=x.device):
        for place, part in enumerate(parts[1:], 1):
            modules.append(norms_at(NetworkSamples.behind(part, parts[:place], x), **options))
    upto = [chain(net, [name])[0] for name in seams[1:]]
    prefixes += [jacobian_norms(part, x, **options) for part in (*upto, net)]
    return ChainNorms(modules, prefixes)


def batched_chain_norms(
    networks: Sequence[nn.Module],
    x: Tensor,
    *,
    seams: Sequence[str],
    start: Sequence[Tensor] | None = None,
    keep_vectors: bool = False,
    **options: Any,
) -> list[ChainNorms]:
    """``chain_norms`` of every network at the samples (N, …).

    Chains of linear layers and activations of one shape are measured as one batch, all modules and prefixes from one
    forward pass; any other networks one after the other. Options as in ``Plan.choose``.

    >>> import torch
    >>> nets = [nn.Sequential(*(nn.Linear(1, 1, bias=False) for _ in range(3))) for _ in range(2)]
    >>> for net in nets:
    ...     for layer in net: _ = nn.init.constant_(layer.weight, 2.0)
    >>> [norms.value.item() for norms in batched_chain_norms(nets, torch.ones(1, 1), seams=["0", "1"])[1].prefixes]
    [2.0, 4.0, 8.0]
    """
    several = layers_alike(networks, x)
    cuts = None if several is None else _cuts(networks[0], seams)
    if several is None or cuts is None:
        earlier: Sequence[Tensor | None] = start or [None] * len(networks)
        return [
            chain_norms(net, x, seams=seams, start=own, keep_vectors=keep_vectors, **options)
            for net, own in zip(networks, earlier, strict=True)
        ]
    modules = list(pairwise(cuts))
    spans = [*modules, *((0, end) for end in cuts[2:])]
    found = span_norms(several, x, spans, start=start, keep_vectors=keep_vectors, **options)
    return [ChainNorms(own[: len(modules)], [own[0], *own[len(modules) :]]) for own in found]


def _cuts(net: nn.Module, seams: Sequence[str]) -> list[int] | None:
    """How many linear layers lie before the input, every seam and the output; None where not all parts are layers."""
    found = [read_dense(part) for part in chain(net, seams)]
    sizes = [len(layers.linears) for layers in found if isinstance(layers, DenseChain)]
    return list(accumulate(sizes, initial=0)) if len(sizes) == len(found) else None
