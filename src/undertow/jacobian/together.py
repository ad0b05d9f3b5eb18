"""Jacobian norms of several networks of one shape on the same samples, as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from undertow.jacobian.checks import check_input
from undertow.jacobian.layered import LayeredOperator, Layers, layers_of
from undertow.jacobian.memory import chunk_size, default_budget, in_chunks
from undertow.jacobian.norms import jacobian_norms, warm_vectors
from undertow.jacobian.plan import Plan
from undertow.jacobian.result import JacobianNorms, joined
from undertow.status import Status

__all__ = ["layers_alike", "norms_together"]


def layers_alike(networks: Sequence[object], x: Tensor) -> list[Layers] | None:
    """The layers of networks that are chains of linear maps and activations of one shape; None where they are not."""
    found = [layers_of(network) for network in networks]
    several = [layers for layers in found if layers is not None]
    if not several or len(several) < len(found):
        return None
    first = several[0]
    if not (first.flattens or x.dim() == 2):
        return None
    shape = _shape(first)
    weights = [linear.weight for layers in several for linear in layers.linears]
    same = all(_shape(layers) == shape and layers.flattens == first.flattens for layers in several)
    placed = all(weight.dtype == x.dtype and weight.device == x.device for weight in weights)
    return several if same and placed else None


def _shape(layers: Layers) -> list[object]:
    return [
        (tuple(linear.weight.shape), linear.bias is None, str(activation))
        for linear, activation in zip(layers.linears, layers.activations, strict=True)
    ]


def norms_together(
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
    >>> [round(norms.value[0].item(), 6) for norms in norms_together(nets, torch.ones(5, 2))]
    [1.0, 2.0]
    """
    several = layers_alike(networks, x)
    if several is None:
        earlier: Sequence[Tensor | None] = start or [None] * len(networks)
        return [
            jacobian_norms(network, x, start=own, memory_budget=memory_budget, **options)
            for network, own in zip(networks, earlier, strict=True)
        ]
    check_input(x)
    members = len(several)
    few = LayeredOperator.at(several, x[:1])
    plan = Plan.choose(few, len(x), **options)
    if few.constant:
        one = plan.starts(1, few, None)
        found = plan.measure(few, None if one is None else one.repeat(members, 1), None)
        return [norms.expanded(len(x)) for norms in _apart(found, members, warm=False)]
    warm = None
    if start is not None:
        small = min(few.in_size, few.out_size)
        warm = torch.stack([_required(warm_vectors(own, len(x), small, x)) for own in start])
    starts = plan.starts(len(x), few, None)
    budget = default_budget(x.device) if memory_budget is None else memory_budget
    chunk = chunk_size(len(x), members * plan.bytes_per_sample(few), budget)

    def work(part: slice) -> list[JacobianNorms]:
        operator = LayeredOperator.at(several, x[part])
        found = plan.measure(
            operator,
            None if starts is None else starts[part].repeat(members, 1),
            None if warm is None else warm[:, part].flatten(0, 1),
        )
        return _apart(found, members, warm=warm is not None)

    parts = list(in_chunks(len(x), chunk, work))
    return [joined(own) for own in zip(*parts, strict=True)]


def _apart(norms: JacobianNorms, members: int, *, warm: bool) -> list[JacobianNorms]:
    """Each network's own part of a batch."""
    good = Status.TRACKED if warm else Status.CONVERGED
    size = len(norms) // members
    return [norms.part(slice(m * size, (m + 1) * size), good=good) for m in range(members)]


def _required(vectors: Tensor | None) -> Tensor:
    assert vectors is not None, "there is a start for every network"
    return vectors
