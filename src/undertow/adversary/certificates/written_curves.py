"""Activations that a network writes out, x·σ(x) or x·(1 + tanh(…))/2, as the curves that they are.

As a product of two factors such a curve would lie between planes that know nothing of both being the same x.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch

from undertow.adversary.certificates.operations import AffineMap, CurveOf

if TYPE_CHECKING:
    from undertow.adversary.certificates.graph_builder import GraphBuilder

__all__ = ["written_curve"]

_NEAR = 4 * torch.finfo(torch.float64).eps
_SIGMOIDS = ("sigmoid", "tanh", "erf")


class _Polynomial(NamedTuple):
    """offset + slope·x + cubic·x³, entry by entry."""

    offset: float
    slope: float
    cubic: float


def written_curve(builder: GraphBuilder, inputs: tuple[int, ...]) -> int | None:
    """αx·(β·S(p(x)) + γ) for S = σ, tanh, erf as a known curve between two factors; None where it is none.

    With S = σ(κx) it is αβ/κ·silu(κx), and tanh(t) = 2σ(2t) − 1; GELU has erf(x/√2), or tanh of √(2/π)(x + 0.044715x³).
    """
    for factor, gate in (inputs, inputs[::-1]):
        chain = _chain(builder, gate)
        curve = builder.operations[chain[-1]]
        if not isinstance(curve, CurveOf) or curve.kind[0] not in _SIGMOIDS:
            continue
        for source in reversed(_chain(builder, factor)):
            parts = [(factor, source), (gate, chain[-1]), (curve.inputs[0], source)]
            before, after, inner = (_polynomial(builder, index, start) for index, start in parts)
            if before is None or after is None or inner is None or before.offset or before.cubic:
                continue
            found = _named(str(curve.kind[0]), after, inner)
            if found is not None:
                name, within, without = found
                return _between(builder, source, name, within, without * before.slope)
    return None


def _chain(builder: GraphBuilder, index: int) -> list[int]:
    """The operation and those before it, as long as each is an entrywise map of one."""
    found = [index]
    while True:
        operation = builder.operations[found[-1]]
        if not isinstance(operation, AffineMap) or not operation.entrywise or len(operation.inputs) > 1:
            return found
        found.append(operation.inputs[0])


def _polynomial(builder: GraphBuilder, index: int, source: int) -> _Polynomial | None:
    """What an operation is of the entries of a source; None where it is no such polynomial, or not the same in all."""
    operation = builder.operations[index]
    if index == source:
        return _Polynomial(0.0, 1.0, 0.0)
    if index < source:
        return None
    if isinstance(operation, CurveOf) and operation.kind[0] == "cube" and operation.inputs == (source,):
        return _Polynomial(0.0, 0.0, 1.0)
    if not isinstance(operation, AffineMap) or not operation.entrywise:
        return None
    zeros = [
        torch.zeros(shape, dtype=torch.float64, device=builder.device) for shape in operation.input_shapes
    ]
    offset = operation.apply(*zeros)
    total = [_same(offset), 0.0, 0.0]
    for place, before in enumerate(operation.inputs):
        part = _polynomial(builder, before, source)
        weight = _same(operation.apply(*(zero + (at == place) for at, zero in enumerate(zeros))) - offset)
        if part is None:
            return None
        total = [old + weight * new for old, new in zip(total, part, strict=True)]
    return None if any(map(math.isnan, total)) else _Polynomial(*total)


def _same(entries: torch.Tensor) -> float:
    """The number that all entries are; NaN where they differ."""
    first = entries.flatten()[:1]
    return float(first) if bool((entries == first).all()) else math.nan


def _named(name: str, after: _Polynomial, inner: _Polynomial) -> tuple[str, float, float] | None:
    """The curve f, κ and c with x·(after of S(inner of x)) = c·f(κx)."""
    even = _near(after.offset, after.slope)
    if inner.offset or after.cubic:
        return None
    if inner.cubic:
        bow = _near(inner.slope, math.sqrt(2 / math.pi)) and _near(inner.cubic, 0.044715 * inner.slope)
        return ("gelu tanh", 1.0, 2 * after.slope) if name == "tanh" and even and bow else None
    if name == "erf":
        return ("gelu", 1.0, 2 * after.slope) if even and _near(inner.slope, math.sqrt(0.5)) else None
    within = inner.slope if name == "sigmoid" else 2 * inner.slope
    if within == 0 or not (even if name == "tanh" else after.offset == 0):
        return None
    return "silu", within, (after.slope if name == "sigmoid" else 2 * after.slope) / within


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _NEAR * abs(other)


def _between(builder: GraphBuilder, source: int, name: str, within: float, without: float) -> int:
    """c·f(κx)."""
    at = builder.curve(_times(builder, source, within), name.split()[0], tuple(name.split()[1:]))
    return _times(builder, at, without)


def _times(builder: GraphBuilder, at: int, factor: float) -> int:
    if factor == 1:
        return at
    return builder.made(
        at, lambda v: v * factor, lambda m: m * abs(factor), kind=("times", factor), entrywise=True
    )
