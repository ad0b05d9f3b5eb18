"""What a result can never be less than, wherever the input is: a sum of squares, and what is added to it.

Limits of a wide ball are rounded, and those of a sum of large squares may then be below zero, where its root is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_unflatten

from undertow.adversary.certificates.aten_rules import REARRANGING, Template
from undertow.adversary.certificates.operations import AffineMap, CurveOf, Operation

if TYPE_CHECKING:
    from undertow.adversary.certificates.graph_builder import GraphBuilder

__all__ = ["above_domain", "least_value"]

_NOT_NEGATIVE = ("square", "relu", "relu6", "abs", "exp", "sigmoid", "softplus", "hardsigmoid", "sqrt")


def least_value(operations: Sequence[Operation], index: int) -> float:
    """A lower bound of every entry of one operation's result; −∞ where none is known.

    >>> from undertow.adversary.certificates.graph_builder import GraphBuilder
    >>> from undertow.adversary.certificates.recorded_graph import record
    >>> start, _, steps, _ = record(lambda x: x.square().mean(1) + 0.5, torch.ones(1, 3))
    >>> builder = GraphBuilder(start)
    >>> for step in steps:
    ...     builder.add(step)
    >>> least_value(builder.operations, len(builder.operations) - 1)
    0.5
    """
    operation = operations[index]
    if isinstance(operation, CurveOf):
        return _of_curve(operation)
    if not isinstance(operation, AffineMap) or not isinstance(operation.apply, Template):
        return -math.inf
    template = operation.apply
    each = [least_value(operations, at) for at in operation.inputs]
    if template.name in REARRANGING:
        return min(each)
    args, kwargs = tree_unflatten(template.leaves, template.structure)
    if min(each) < 0 or (kwargs and template.name not in ("mean", "sum")):
        return -math.inf
    if template.name == "add":
        return sum(each) + (0.0 if operation.offset is None else float(operation.offset.min()))
    factors = [factor for factor in args if factor is not None]
    scaled = template.name in ("mul", "div") and all(
        bool((torch.as_tensor(factor) >= 0).all()) for factor in factors
    )
    return 0.0 if template.name in ("mean", "sum") or scaled else -math.inf


def _of_curve(operation: CurveOf) -> float:
    name, *rest = operation.kind
    if name == "clamp":
        ends: Any = rest[0] if isinstance(rest[0], tuple) else rest
        return float(ends[0])
    return 0.0 if name in _NOT_NEGATIVE else -math.inf


def above_domain(builder: GraphBuilder, at: int, domain: float) -> int:
    """The same operation, or that cut off at what it is never below, for a curve that is defined above a number."""
    kind = getattr(builder.operations[at], "kind", ())
    if math.isinf(domain) or kind[:1] == ("clamp",):
        return at
    least = least_value(builder.operations, at)
    return builder.curve(at, "clamp", (least, math.inf)) if least > domain else at
