"""Collaboration between layers: co-correlation, and the decomposition of the energy at a seam or along a chain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, overload

import torch
from pydantic import Field
from torch import Tensor, nn

from undertow.core.errors import InputError, nearest
from undertow.core.outputs import OutputChoice
from undertow.core.sections import Count, Switch, Text
from undertow.jacobian.preconditions import prepare
from undertow.measures.chain import ChainResult, along_chain
from undertow.measures.chain_norms import ChainNorms, batched_chain_norms, chain_norms
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading
from undertow.measures.seam import CollaborationResult, Form

__all__ = ["Collaboration", "collaboration"]

_FORMS = ("equation-9", "algorithm-1")
_KEYS = ("linear_correlation", "relative_std", "energy_head", "energy_tail", "energy", "identity_gap")


@overload
def collaboration(
    net: nn.Module, x: Tensor, *, seam: str, form: Form = ..., **options: Any
) -> CollaborationResult: ...
@overload
def collaboration(
    net: nn.Module, x: Tensor, *, seams: Sequence[str], form: Form = ..., **options: Any
) -> ChainResult: ...
def collaboration(
    net: nn.Module,
    x: Tensor,
    *,
    seam: str | None = None,
    seams: Sequence[str] | None = None,
    form: Form = "equation-9",
    dtype: torch.dtype | None = None,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
    **options: Any,
) -> CollaborationResult | ChainResult:
    """How the parts of ``net`` on both sides of a seam work together to amplify perturbations.

    The co-correlation ϱ in [0, 1] is 1 when what the tail stretches most is what the head stretches most
    (Wang, Min & Ruan 2024, Definition 4.2).

    Args:
        net: a network that can be cut; ``undertow.seams(net, x)`` lists the places.
        x: samples, (N, …).
        seam: the name of one module to cut after, or
        seams: those of several, from input to output.
        form: "algorithm-1" computes ϱ from plain means, as the paper's Algorithm 1 prints it; the identity of
            Theorem 4.5 then fails by the difference.
        dtype: the precision to measure in, on a copy of the network.
        output: which of the network's outputs is meant, as in :func:`undertow.jacobian_norms`.
        extras: what the network takes beside x, a row for each sample.
        options: go to :func:`undertow.jacobian_norms`.

    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
    >>> _ = net[0].weight.data.copy_(torch.diag(torch.tensor([3.0, 1.0])))
    >>> _ = net[1].weight.data.copy_(torch.tensor([[0.0, 2.0]]))  # the head reads what the tail stretches least
    >>> round(collaboration(net, torch.ones(5, 2), seam="0").co_correlation, 6)
    0.333333
    """
    if form not in _FORMS:
        raise InputError(f"there is no form {form!r}: {nearest(str(form), _FORMS)}")
    if (seam is None) == (seams is None):
        raise InputError("name either one seam=… or several seams=[…]; undertow.seams(net, x) lists them.")
    if not isinstance(net, nn.Module):
        raise InputError(f"net must be a torch.nn.Module to be cut, not {type(net).__name__}.")
    names = [seam] if seam is not None else list(seams or ())
    net, x = prepare(net, x, dtype, output=output, extras=extras)  # type: ignore[assignment]
    found = along_chain(chain_norms(net, x, seams=names, **options), seams=names, form=form)
    return found.links[0] if seam is not None else found


class Collaboration(NamedMeasure):
    """Co-correlation ϱ of head and tail at ``seam``, with the other factors of the decomposition.

    ``rtol`` bounds the error of every Jacobian norm that is not computed exactly. With ``warm`` the tail's norms
    start from the directions found at the moment before, which takes about half the steps. The values are as
    accurate; the recorded error is what each measurement proves by itself, a few per cent. Every ``cold_every``-th
    measurement starts afresh and is proved to ``rtol``. With ``standard_error`` there is a reading
    ``SEAM:standard_error`` too, of ϱ by the choice of points.
    """

    name: ClassVar[str] = "collaboration"
    seam: Text
    rtol: Annotated[float, Field(strict=True, gt=0, lt=1)] = 1e-3
    warm: Switch = False
    cold_every: Count = 10
    standard_error: Switch | None = None

    @property
    def remembers(self) -> bool:
        """Whether one measurement depends on the one before it."""
        return self.warm

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> _Warm:  # noqa: ARG002
        return _Warm(self)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        return self._readings(collaboration(net, x, seam=self.seam, rtol=self.rtol))

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """All networks' Jacobians as one batch."""
        return self._from(self._norms(networks, x), networks, x, y)

    def _norms(self, networks: Sequence[nn.Module], x: Tensor, **options: Any) -> list[ChainNorms]:
        return batched_chain_norms(networks, x, seams=[self.seam], rtol=self.rtol, **options)

    def _from(
        self, several: Sequence[ChainNorms], networks: Sequence[nn.Module], x: Tensor, y: Tensor | None
    ) -> list[list[Reading]]:
        found = [along_chain(each, seams=[self.seam]).links[0] for each in several]
        if not all(math.isfinite(each.energy_tail * each.energy) for each in found):
            # One by one it is told what is wrong with which.
            return [list(self(net, x, y)) for net in networks]
        return [list(self._readings(each)) for each in found]

    def _readings(self, result: CollaborationResult) -> Iterator[Reading]:
        yield f"{self.seam}:co_correlation", result.co_correlation, result.error
        if self.standard_error:
            yield f"{self.seam}:standard_error", result.standard_error, None
        for key in _KEYS:
            yield f"{self.seam}:{key}", float(getattr(result, key)), None


class _Warm:
    """One network's collaboration over time: each measurement starts from the directions of the one before."""

    observes = False

    def __init__(self, options: Collaboration) -> None:
        self.options = options
        self.taken = 0
        self.vectors: Tensor | None = None

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        return iter(self.batched([self], [net], x, y)[0])

    @staticmethod
    def batched(
        trackers: Sequence[_Warm], networks: Sequence[nn.Module], x: Tensor, y: Tensor | None
    ) -> list[list[Reading]]:
        """All networks as one batch; they have been measured equally often."""
        options = trackers[0].options
        vectors = [tracker.vectors for tracker in trackers if tracker.vectors is not None]
        cold = trackers[0].taken % options.cold_every == 0 or len(vectors) < len(trackers)
        # Where norms are computed exactly there is nothing to start from, as the first measurement shows.
        keep = trackers[0].taken == 0 or bool(vectors)
        several = options._norms(networks, x, start=None if cold else vectors, keep_vectors=keep)
        for tracker, norms in zip(trackers, several, strict=True):
            tracker.taken += 1
            tail = norms.modules[0]
            found = tail.vectors if tail.method == "krylov" else None
            # Half the memory, and a checkpoint of half the size: a start need not be exact.
            tracker.vectors = None if found is None else found.half()
        return options._from(several, networks, x, y)

    def state(self) -> dict[str, Tensor]:
        kept = {} if self.vectors is None else {"vectors": self.vectors}
        return {"taken": torch.tensor(self.taken), **kept}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.taken = int(state["taken"])
        self.vectors = state.get("vectors")
