"""Collaboration along a chain of modules: Theorem 4.5 at every seam, an energy budget by depth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field
from torch import Tensor, nn

from undertow.core.enclosing import innermost
from undertow.core.errors import InputError
from undertow.core.sections import Text
from undertow.core.shown import Shown, aligned
from undertow.core.status import Status
from undertow.core.unwrapping import unwrapped
from undertow.jacobian.preconditions import prepare
from undertow.jacobian.seams import seams
from undertow.measures.chain_norms import ChainNorms, batched_chain_norms, chain_norms
from undertow.measures.energy import root_mean_square
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading
from undertow.measures.seam import CollaborationResult, Form, collaborate, relative_gap

__all__ = ["Chain", "ChainResult", "along_chain"]


@dataclass(frozen=True)
class ChainResult(Shown):
    """An energy budget by depth: Theorem 4.5 applied at every seam of a chain f_L ∘ ⋯ ∘ f_1.

    At seam l the head is f_{l+1} and the tail everything before it, so

        S(net) = Π_l S(f_l) · Π_l ϱ_l √(1 + var_l/μ_l²) ρ_l.

    ``links`` holds one :class:`CollaborationResult` per seam, ``energies`` S(f_1) … S(f_L); attributes named as
    there are tuples over the seams. ``energy`` is S(net), ``identity_gap`` the gap of the whole product.
    """

    seams: tuple[str, ...]
    links: tuple[CollaborationResult, ...]
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

    def __repr__(self) -> str:
        words = f"S(net) = {self.energy:.4g} = the product of these, {self.status.value}"
        rows = [("", name, f"{factor:.4g}") for name, factor in self.factors]
        return "\n".join([f"ChainResult: {words}", *aligned(rows)])

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


def along_chain(norms: ChainNorms, *, seams: Sequence[str], form: Form = "equation-9") -> ChainResult:
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
    return ChainResult(tuple(seams), links, energies, energy, relative_gap(product, energy), status)


class Chain(NamedMeasure):
    """The energy budget by depth: S(net) = Π S(f_l) · Π ϱ_l √(1 + var_l/μ_l²) ρ_l over the seams of a chain.

    ``seams`` name the modules to cut after, from input to output; without them it is cut after every activation.
    For each seam the readings are ``SEAM:co_correlation``, ``SEAM:relative_std``, ``SEAM:linear_correlation``;
    ``I:module`` is the energy S(f_I) of the I-th module of the chain, from 0; then ``energy`` and ``identity_gap``.
    ``rtol`` bounds the error of every norm, by default as :func:`undertow.jacobian_norms` has it.

    >>> import torch
    >>> net = torch.nn.Sequential(*(torch.nn.Linear(1, 1, bias=False) for _ in range(3)))
    >>> for layer in net: _ = layer.weight.data.fill_(2.0)
    >>> {key: value for key, value, _ in Chain(seams=("0", "1"))(net, torch.ones(1, 1), None)}["energy"]
    8.0
    """

    name: ClassVar[str] = "chain"
    seams: tuple[Text, ...] = ()
    rtol: Annotated[float, Field(strict=True, gt=0, lt=1)] | None = None

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        names = self.seams or _activations(net, x)
        net, x = prepare(net, x, None)  # type: ignore[assignment]
        return self._readings(along_chain(chain_norms(net, x, seams=names, **self._options()), seams=names))

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """All networks' Jacobians as one batch."""
        names = self.seams or _activations(networks[0], x)
        several = batched_chain_norms(networks, x, seams=names, **self._options())
        found = [along_chain(norms, seams=names) for norms in several]
        if not all(math.isfinite(math.prod(each.energies) * each.energy) for each in found):
            # One by one it is told what is wrong with which.
            return [list(self(net, x, y)) for net in networks]
        return [list(self._readings(each)) for each in found]

    def _options(self) -> dict[str, Any]:
        return {} if self.rtol is None else {"rtol": self.rtol}

    def _readings(self, found: ChainResult) -> Iterator[Reading]:
        for link in found.links:
            yield f"{link.seam}:co_correlation", link.co_correlation, link.error
            yield f"{link.seam}:relative_std", link.relative_std, None
            yield f"{link.seam}:linear_correlation", link.linear_correlation, None
        for index, energy in enumerate(found.energies):
            yield f"{index}:module", energy, None
        yield "energy", found.energy, None
        yield "identity_gap", found.identity_gap, None


def _activations(net: nn.Module, x: Tensor) -> tuple[str, ...]:
    """The seams after modules without weights of their own, reshapes apart."""
    modules = dict(innermost(unwrapped(net)).named_modules())
    names = tuple(
        name
        for name in seams(net, x)
        if not isinstance(modules[name], nn.Flatten)
        and next(modules[name].parameters(), None) is None
        and next(modules[name].children(), None) is None
    )
    if not names:
        raise InputError("there is no activation to cut after: name the seams of the chain.")
    return names
