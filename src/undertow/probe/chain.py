"""Theorem 4.5 along a chain of modules, as a measure for probes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from undertow.core.errors import InputError
from undertow.probe.reading import Reading

if TYPE_CHECKING:
    from torch import Tensor, nn

    from undertow.measures.chain import Chain as Result

__all__ = ["Chain"]


@dataclass(frozen=True)
class Chain:
    """The energy budget by depth: S(net) = Π S(f_l) · Π ϱ_l √(1 + var_l/μ_l²) ρ_l over the seams of a chain.

    ``seams`` name the modules to cut after, from input to output; without them it is cut after every activation.
    For each seam the readings are ``SEAM:co_correlation``, ``SEAM:relative_std``, ``SEAM:linear_correlation``;
    ``I:module`` is the energy S(f_I) of the I-th module of the chain, from 0; then ``energy`` and ``identity_gap``.

    >>> import torch
    >>> net = torch.nn.Sequential(*(torch.nn.Linear(1, 1, bias=False) for _ in range(3)))
    >>> for layer in net: _ = layer.weight.data.fill_(2.0)
    >>> {key: value for key, value, _ in Chain(seams=("0", "1"))(net, torch.ones(1, 1), None)}["energy"]
    8.0
    """

    name: ClassVar[str] = "chain"
    seams: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "seams", tuple(self.seams))

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        from undertow.measures.collaboration import collaboration

        return self._readings(collaboration(net, x, seams=self.seams or _activations(net, x)))

    def together(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """All networks' Jacobians as one batch."""
        from undertow.measures.chain import along_chain, batched_chain_norms

        seams = self.seams or _activations(networks[0], x)
        found = [along_chain(norms, seams=seams) for norms in batched_chain_norms(networks, x, seams=seams)]
        if not all(math.isfinite(math.prod(each.energies) * each.energy) for each in found):
            return [
                list(self(net, x, y)) for net in networks
            ]  # one by one it is told what is wrong with which
        return [list(self._readings(each)) for each in found]

    def _readings(self, found: Result) -> Iterator[Reading]:
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
    from torch import nn

    from undertow.jacobian.seams import seams

    modules = dict(net.named_modules())
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
