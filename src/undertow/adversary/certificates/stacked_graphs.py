"""Graphs of several networks of one architecture as one graph, so that proofs of all of them are one batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from undertow.adversary.certificates.network_graph import NetworkGraph
from undertow.adversary.certificates.operations import AffineMap, CurveOf, LargestOf, Operation
from undertow.adversary.certificates.stacked_maps import stacked_map

__all__ = ["stacked_graph", "together"]


def together(graphs: Sequence[NetworkGraph]) -> list[tuple[range, NetworkGraph]]:
    """The graphs as one with all members, or one by one where they cannot be: which networks, and their graph."""
    if len(graphs) > 1:
        key = "together", *map(id, graphs)  # which live as long as the first of them knows it
        kept = graphs[0].kept
        if key not in kept:
            kept[key] = stacked_graph(graphs)
        if kept[key] is not None:
            return [(range(len(graphs)), kept[key])]
    return [(range(member, member + 1), graph) for member, graph in enumerate(graphs)]


def stacked_graph(graphs: Sequence[NetworkGraph]) -> NetworkGraph | None:
    """One graph whose affine maps have the weights of all networks; None where they differ in more than weights."""
    first = graphs[0]
    if any(
        graph.output != first.output or len(graph.operations) != len(first.operations) for graph in graphs
    ):
        return None
    operations: list[Operation] = []
    for each in zip(*(graph.operations for graph in graphs), strict=True):
        if not all(_same_kind(each[0], other) for other in each[1:]):
            return None
        maps = [operation for operation in each if isinstance(operation, AffineMap)]
        operations.append(stacked_map(maps) if maps else each[0])
    return NetworkGraph(tuple(operations), first.output, tuple(graphs))


def _same_kind(one: Operation, other: Operation) -> bool:
    """Whether two operations are the same but for the weights of affine maps."""
    if type(one) is not type(other) or one.shape != other.shape or one.inputs != other.inputs:
        return False
    if isinstance(one, AffineMap) and isinstance(other, AffineMap):
        shapes = [[constant.shape for constant in each.constants] for each in (one, other)]
        return one.kind == other.kind and shapes[0] == shapes[1]
    if isinstance(one, CurveOf) and isinstance(other, CurveOf):
        return (
            one.kind == other.kind
            and len(one.constants) == len(other.constants)
            and all(torch.equal(a, b) for a, b in zip(one.constants, other.constants, strict=True))
        )
    if isinstance(one, LargestOf) and isinstance(other, LargestOf):
        return torch.equal(one.members, other.members)
    return one == other or vars(one) == vars(other)
