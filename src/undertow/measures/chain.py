"""Collaboration along a chain of modules: Theorem 4.5 at every seam, an energy budget by depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from torch import Tensor, nn

from undertow.core.networks import DenseChain, read_dense
from undertow.core.status import Status
from undertow.jacobian.batched_norms import layers_alike, span_norms
from undertow.jacobian.cutting import chain
from undertow.jacobian.norms import JacobianNorms, jacobian_norms, norms_at
from undertow.jacobian.precisions import NetworkSamples
from undertow.jacobian.trace import leave_no_trace
from undertow.measures.energy import root_mean_square
from undertow.measures.seam import Collaboration, Form, collaborate, relative_gap

__all__ = ["Chain", "ChainNorms", "along_chain", "batched_chain_norms", "chain_norms"]


@dataclass(frozen=True)
class Chain:
    """An energy budget by depth: Theorem 4.5 applied at every seam of a chain f_L ∘ ⋯ ∘ f_1.

    At seam l the head is f_{l+1} and the tail everything before it, so

        S(net) = Π_l S(f_l) · Π_l ϱ_l √(1 + var_l/μ_l²) ρ_l.

    ``links`` holds one :class:`Collaboration` per seam, ``energies`` S(f_1) … S(f_L); attributes named as
    there are tuples over the seams. ``energy`` is S(net), ``identity_gap`` the gap of the whole product.
    """

    seams: tuple[str, ...]
    links: tuple[Collaboration, ...]
    energies: tuple[float, ...]
    energy: float
    identity_gap: float
    status: Status

    @property
    def co_correlation(self) -> tuple[float, ...]:
        return tuple(link.co_correlation for link in self.links)

    @property
    def linear_correlation(self) -> tuple[float, ...]:
        return tuple(link.linear_correlation for link in self.links)

    @property
    def mean(self) -> tuple[float, ...]:
        return tuple(link.mean for link in self.links)

    @property
    def variance(self) -> tuple[float, ...]:
        return tuple(link.variance for link in self.links)

    @property
    def relative_std(self) -> tuple[float, ...]:
        return tuple(link.relative_std for link in self.links)

    @property
    def energy_head(self) -> tuple[float, ...]:
        return tuple(link.energy_head for link in self.links)

    @property
    def energy_tail(self) -> tuple[float, ...]:
        return tuple(link.energy_tail for link in self.links)

    @property
    def factors(self) -> tuple[tuple[str, float], ...]:
        """Named factors whose product is S(net): the modules' energies and what happens at every seam."""
        named = [(f"S({self.seams[0]})", self.energies[0])]
        ends = [*self.seams[1:], "output"]
        for link, end, module in zip(self.links, ends, self.energies[1:], strict=True):
            named += [
                (f"ϱ({link.seam})", link.co_correlation),
                (f"√(1+var/μ²)({link.seam})", math.hypot(1.0, link.relative_std)),
                (f"ρ({link.seam})", link.linear_correlation),
                (f"S({link.seam}→{end})", module),
            ]
        return tuple(named)


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
    """What :func:`along_chain` needs of a network at the samples (N, …); options as in ``jacobian_norms``.

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


def along_chain(norms: ChainNorms, *, seams: Sequence[str], form: Form = "equation-9") -> Chain:
    """The budget of a chain from the norms of its modules and prefixes, on the same samples."""
    heads, tails, wholes = norms.modules[1:], norms.prefixes[:-1], norms.prefixes[1:]
    links = tuple(
        collaborate(head, tail, whole, seam=name, form=form)
        for name, head, tail, whole in zip(seams, heads, tails, wholes, strict=True)
    )
    energies = tuple(root_mean_square(each.value, each.error)[0] for each in norms.modules)
    product = energies[0]
    for link, module in zip(links, energies[1:], strict=True):
        product *= link.co_correlation * math.hypot(1.0, link.relative_std) * link.linear_correlation * module
    energy = links[-1].energy
    status = Status.worst(link.status for link in links)
    return Chain(tuple(seams), links, energies, energy, relative_gap(product, energy), status)
