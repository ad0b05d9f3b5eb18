"""Jacobian norms of several networks of one shape on the same samples, as one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from undertow.core.networks import DenseChain, read_dense
from undertow.core.status import Status
from undertow.jacobian.memory import chunk_size, default_budget, in_chunks
from undertow.jacobian.norms import jacobian_norms, warm_vectors
from undertow.jacobian.plan import Plan
from undertow.jacobian.precisions import LayeredSamples, Precisions
from undertow.jacobian.preconditions import check_input
from undertow.jacobian.result import JacobianNorms, joined

__all__ = ["batched_norms", "layers_alike", "span_norms"]


def layers_alike(networks: Sequence[object], x: Tensor) -> list[DenseChain] | None:
    """The layers of networks that are chains of linear maps and activations of one shape; None where they are not."""
    found = [read_dense(network, inputs=x) for network in networks]
    several = [layers for layers in found if isinstance(layers, DenseChain)]
    if not several or len(several) < len(found):
        return None
    first = several[0]
    shape = _shape(first)
    weights = [linear.weight for layers in several for linear in layers.linears]
    same = all(_shape(layers) == shape and layers.flattens == first.flattens for layers in several)
    placed = all(weight.dtype == x.dtype and weight.device == x.device for weight in weights)
    return several if same and placed else None


def _shape(layers: DenseChain) -> list[object]:
    return [
        (tuple(linear.weight.shape), linear.bias is None, str(activation and activation.module))
        for linear, activation in zip(layers.linears, layers.activations, strict=True)
    ]


def batched_norms(
    networks: Sequence[nn.Module],
    x: Tensor,
    *,
    start: Sequence[Tensor] | None = None,
    memory_budget: int | None = None,
    **options: Any,
) -> list[JacobianNorms]:
    """``jacobian_norms`` of every network at the samples (N, …), with the same promises; options as in ``Plan.choose``.

    Chains of linear layers and activations of one shape are one batch of M·N Jacobians with a matrix for each
    network; any other networks are measured one after the other. ``start`` holds the vectors of each network's
    earlier result.

    >>> nets = [nn.Linear(2, 2, bias=False) for _ in range(2)]
    >>> _ = nn.init.eye_(nets[0].weight), nn.init.ones_(nets[1].weight)
    >>> [round(norms.value[0].item(), 6) for norms in batched_norms(nets, torch.ones(5, 2))]
    [1.0, 2.0]
    """
    several = layers_alike(networks, x)
    if several is None:
        earlier: Sequence[Tensor | None] = start or [None] * len(networks)
        return [
            jacobian_norms(network, x, start=own, memory_budget=memory_budget, **options)
            for network, own in zip(networks, earlier, strict=True)
        ]
    whole = (0, len(several[0].linears))
    found = span_norms(several, x, [whole], start=start, memory_budget=memory_budget, **options)
    return [norms for (norms,) in found]


def span_norms(
    networks: Sequence[DenseChain],
    x: Tensor,
    spans: Sequence[tuple[int, int]],
    *,
    start: Sequence[Tensor] | None = None,
    keep_vectors: bool = False,
    memory_budget: int | None = None,
    **options: Any,
) -> list[list[JacobianNorms]]:
    """Every network's norms of some spans of its layers, [first, last), at the values that reach them.

    All networks are one batch, and one forward pass serves all spans. ``start``, as for :func:`batched_norms`, and
    ``keep_vectors`` are for the first span.

    >>> halves = [read_dense(nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU(), nn.Linear(1, 1, bias=False)))]
    >>> for linear in halves[0].linears: _ = nn.init.constant_(linear.weight, 3.0)
    >>> [norms.value.item() for norms in span_norms(halves, torch.ones(1, 1), [(0, 1), (1, 2), (0, 2)])[0]]
    [3.0, 3.0, 9.0]
    """
    check_input(x)
    few = LayeredSamples(networks, x[:1])
    first = {"keep_vectors": keep_vectors, **options}
    jobs = [
        _Job.choose(few.span(*span), span, x, None if place else start, options if place else first)
        for place, span in enumerate(spans)
    ]
    varying = [job for job in jobs if not job.few.given.constant]
    found: dict[tuple[int, int], list[JacobianNorms]] = {
        job.span: job.once(len(networks)) for job in jobs if job.few.given.constant
    }
    if varying:
        budget = default_budget(x.device) if memory_budget is None else memory_budget
        most = few.kept_bytes + max(job.plan.bytes_per_sample(job.few.given) for job in varying)

        def work(part: slice) -> list[list[JacobianNorms]]:
            samples = LayeredSamples(networks, x[part])
            return [job.at(samples, part) for job in varying]

        chunks = list(in_chunks(len(x), chunk_size(len(x), len(networks) * most, budget), work))
        for place, job in enumerate(varying):
            found[job.span] = [joined(own) for own in zip(*(chunk[place] for chunk in chunks), strict=True)]
    return [[found[span][member] for span in spans] for member in range(len(networks))]


@dataclass(frozen=True)
class _Job:
    """The norms of one span: how they are computed, and from which vectors."""

    span: tuple[int, int]
    few: Precisions
    plan: Plan
    samples: int
    starts: Tensor | None
    warm: Tensor | None

    @classmethod
    def choose(
        cls,
        few: Precisions,
        span: tuple[int, int],
        x: Tensor,
        start: Sequence[Tensor] | None,
        options: Mapping[str, Any],
    ) -> _Job:
        """The job of a span, given its Jacobians at the first sample of every network."""
        operator = few.given
        plan = Plan.choose(operator, len(x), **options)
        warm = None
        if start is not None and not operator.constant:
            small = min(operator.in_size, operator.out_size)
            warm = torch.stack([_required(warm_vectors(own, len(x), small, x)) for own in start])
        starts = plan.starts(1 if operator.constant else len(x), operator, None)
        return cls(span, few, plan, len(x), starts, warm)

    def once(self, members: int) -> list[JacobianNorms]:
        """Each network's norms where all samples have the same Jacobian."""
        starts = None if self.starts is None else self.starts.repeat(members, 1)
        found = self.plan.measure(self.few, starts, None)
        return [norms.expanded(self.samples) for norms in _apart(found, members)]

    def at(self, samples: LayeredSamples, part: slice) -> list[JacobianNorms]:
        """Each network's norms at ``samples``, which are ``part`` of all."""
        members = len(samples.networks)
        found = self.plan.measure(
            samples.span(*self.span),
            None if self.starts is None else self.starts[part].repeat(members, 1),
            None if self.warm is None else self.warm[:, part].flatten(0, 1),
        )
        return _apart(found, members, warm=self.warm is not None)


def _apart(norms: JacobianNorms, members: int, *, warm: bool = False) -> list[JacobianNorms]:
    """Each network's own part of a batch."""
    good = Status.TRACKED if warm else Status.CONVERGED
    size = len(norms) // members
    return [norms.part(slice(m * size, (m + 1) * size), good=good) for m in range(members)]


def _required(vectors: Tensor | None) -> Tensor:
    assert vectors is not None, "there is a start for every network"
    return vectors
