"""A classifier as a graph of operations from raw inputs to class scores, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from undertow.adversary.certificates.activation_curves import Curve
from undertow.adversary.certificates.graph_builder import GraphBuilder
from undertow.adversary.certificates.member_batches import MemberBatch
from undertow.adversary.certificates.normalisation_maps import MIXED
from undertow.adversary.certificates.operations import (
    AffineMap,
    CurveOf,
    InputValue,
    LargestOf,
    Operation,
    ProductOf,
)
from undertow.adversary.certificates.recorded_graph import UnreadableError, record
from undertow.adversary.classifier import Classifier

__all__ = ["NetworkGraph", "graph_of", "graphs_of", "read_graph"]

_RTOL = (
    1e-3  # to which the graph must agree with the network: a wrong reading is wrong by more, float32 by less
)


@dataclass(frozen=True, eq=False)
class NetworkGraph:
    """Operations, each after those it takes its inputs from; the first is the input, ``output`` the scores."""

    operations: tuple[Operation, ...]
    output: int
    members: tuple[NetworkGraph, ...] = ()
    """The graphs of several networks of one architecture, where this is all of them (`stacked_graphs`)."""
    kept: dict[object, Any] = field(default_factory=dict, repr=False)
    """What has been computed of its weights, such as norms, by whoever will need it again."""

    @property
    def classes(self) -> int:
        return math.prod(self.operations[self.output].shape)

    @property
    def linear(self) -> bool:
        """Whether there are only affine maps."""
        return all(isinstance(operation, InputValue | AffineMap) for operation in self.operations)

    def reaches(self, source: int, target: int, *, without: int) -> bool:
        """Whether the target depends on the source other than through one operation."""
        seen = {target}
        for index in range(target, -1, -1):
            if index in seen and index != without:
                seen.update(self.operations[index].inputs)
        return source in seen and source != without

    def without_unused(self) -> NetworkGraph:
        """The same without what a network computes and its scores do not use, such as a loss beside them."""
        used = {0, self.output}  # the input stays in any case
        for index in range(self.output, -1, -1):
            if index in used:
                used.update(self.operations[index].inputs)
        places = {old: new for new, old in enumerate(sorted(used))}
        kept = [self.operations[index] for index in sorted(used)]
        moved = [replace(each, inputs=tuple(places[index] for index in each.inputs)) for each in kept]
        return NetworkGraph(tuple(moved), places[self.output])

    def values(self, x: Tensor, batch: MemberBatch | None = None) -> list[Tensor]:
        """The value (B, *S) of every operation at the samples x (B, …), each of the network that ``batch`` says."""
        found: list[Tensor] = []
        for operation in self.operations:
            given = [found[index] for index in operation.inputs]
            found.append(_value(operation, given, x, batch))
        return found


def _value(operation: Operation, given: list[Tensor], x: Tensor, batch: MemberBatch | None) -> Tensor:
    if isinstance(operation, InputValue):
        return x.double().reshape(len(x), *operation.shape)
    if isinstance(operation, AffineMap):
        return operation.values(given, batch)
    if isinstance(operation, CurveOf):
        return operation.curve.value(given[0])
    if isinstance(operation, LargestOf):
        flat = torch.nn.functional.pad(given[0].flatten(1), (0, 1), value=-math.inf)
        return flat[:, operation.members].amax(-1).reshape(len(x), *operation.shape)
    assert isinstance(operation, ProductOf)
    return given[0] @ given[1] if operation.matrices else given[0] * given[1]


def graph_of(classifier: Classifier, net: nn.Module, x: Tensor) -> NetworkGraph | None:
    """The graph from raw inputs to class scores; None where the network cannot be read (`read_graph` says why)."""
    try:
        return read_graph(classifier, net, x)
    except UnreadableError:
        return None


def graphs_of(classifier: Classifier, x: Tensor) -> tuple[list[NetworkGraph], str]:
    """The graph of every network of a classifier; or none, and a sentence that says why."""
    if not classifier.modules:
        return [], "only a network that is a module can be read"
    try:
        return [read_graph(classifier, net, x) for net in classifier.modules], ""
    except UnreadableError as reason:
        return [], str(reason)


def read_graph(classifier: Classifier, net: nn.Module, x: Tensor) -> NetworkGraph:
    """The graph from raw inputs to class scores; an `UnreadableError` sentence where an operation has no known bounds.

    A classifier that divides each sample by its norm is such a graph only up to that positive factor, and only where
    the graph is positively homogeneous: its decisions are then those of the graph without it.
    """
    mean, std = classifier.normalisation(x[0])
    trivial = bool((mean == 0).all()) and bool((std == 1).all())
    with classifier.scoring(x[:1], check=False) as scorer:

        def scores(sample: Tensor) -> Tensor:
            out: Tensor = net(sample if trivial else (sample - mean) / std)
            if scorer.readout is None:
                return out
            return (out if out.ndim == 2 else out.unsqueeze(-1)) @ scorer.readout.T

        try:
            start, result, steps, alive = record(scores, x[:1])
        except UnreadableError:
            raise
        except RuntimeError as error:
            raise UnreadableError(
                f"its operations could not be recorded ({str(error).splitlines()[0]})"
            ) from None
        builder = GraphBuilder(start)
        for step in steps:
            builder.add(step)
        graph = NetworkGraph(tuple(builder.operations), builder.output(result)).without_unused()
        del alive
        try:
            _check_agreement(graph, scores, x)
        except UnreadableError as error:
            raise UnreadableError(MIXED if builder.of_batch else str(error)) from None
    graph = _without_common_offset(graph)
    if classifier.unit_norm and not _homogeneous(graph):
        raise UnreadableError(
            "it divides each sample by its norm, and is not positively homogeneous after that"
        )
    return graph


def _check_agreement(graph: NetworkGraph, scores: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """The graph must compute what the network computes, at samples it was not recorded on and between them."""
    some = x[:8]
    points = torch.cat([some, (some + some.roll(1, 0)) / 2, -some])
    with torch.no_grad():
        expected = scores(points).double().flatten(1)
        values = graph.values(points)
        found, rounding = values[graph.output].flatten(1), 1e3 * torch.finfo(x.dtype).eps
        allowed = _RTOL * expected.abs().amax() + rounding * _sizes(graph, values).flatten(1)
    if expected.shape != found.shape or not bool(((expected - found).abs() <= allowed).all()):
        raise UnreadableError("what was recorded on one sample is not what the network computes on others")


def _sizes(graph: NetworkGraph, values: list[Tensor]) -> Tensor:
    """What the terms of the scores add up to in size: rounding is a share of that, not of their sum."""
    sizes: list[Tensor] = []
    for operation, value in zip(graph.operations, values, strict=True):
        if isinstance(operation, AffineMap):
            sizes.append(operation.sizes([sizes[index] for index in operation.inputs]))
        else:
            before = sizes[operation.inputs[0]] if operation.inputs else value
            if isinstance(operation, CurveOf):
                before = before * _passed_on(operation.curve, values[operation.inputs[0]], before)
            # an activation passes on the rounding of what enters it
            sizes.append(value.abs().maximum(before) if before.shape == value.shape else value.abs())
    return sizes[graph.output]


def _passed_on(curve: Curve, value: Tensor, size: Tensor) -> Tensor:
    """Which share of its input's rounding an activation passes on, at most all: of a masked score nothing."""
    near = 1e3 * torch.finfo(torch.float32).eps * size
    here, sides = curve.value(value), (curve.value(value - near), curve.value(value + near))
    most = torch.maximum(*((side - here).abs() for side in sides)) / near.clamp(min=1e-300)
    return torch.nan_to_num(most, nan=1.0).clamp(max=1.0)


def _without_common_offset(graph: NetworkGraph) -> NetworkGraph:
    """What the last map adds to all scores alike decides nothing, and differences may drown in its rounding."""
    index = graph.output
    last = graph.operations[index]
    while isinstance(last, AffineMap) and last.rearranges and len(last.inputs) == 1:
        index = last.inputs[0]
        last = graph.operations[index]
    users = sum(index in operation.inputs for operation in graph.operations)
    if not isinstance(last, AffineMap) or last.offset is None or users > (index != graph.output):
        return graph
    shift = last.offset.flatten()[0]
    apply, absolute, offset = last.apply, last.absolute, last.offset
    size, less = offset.abs(), (offset - shift).abs()
    if not bool((less < size).any()):
        return graph
    centred = replace(
        last,
        offset=offset - shift,
        apply=lambda *values: apply(*values) - shift,
        absolute=lambda *values: absolute(*values) - size + less,
        fast_values=None,
        fast_sizes=None,
    )
    operations = list(graph.operations)
    operations[index] = centred
    return NetworkGraph(tuple(operations), graph.output)


def _homogeneous(graph: NetworkGraph) -> bool:
    """Whether f(c·x) = c·f(x) for every c > 0."""
    return all(
        isinstance(operation, InputValue | LargestOf)
        or (isinstance(operation, AffineMap) and operation.offset is None)
        or (isinstance(operation, CurveOf) and operation.curve.homogeneous)
        for operation in graph.operations
    )
