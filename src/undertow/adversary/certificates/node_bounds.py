"""Bounds through one operation: intervals forward, relaxations on limits, rows backward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from undertow.adversary.certificates.activation_curves import Curve
from undertow.adversary.certificates.member_batches import MemberBatch
from undertow.adversary.certificates.operations import (
    AffineMap,
    CurveOf,
    LargestOf,
    Operation,
    ProductOf,
)
from undertow.adversary.certificates.relaxations import LinePair, curve_range, lines_around

__all__ = [
    "Chords",
    "LinearPiece",
    "Relaxation",
    "RowRelaxation",
    "backward_through",
    "dot_rows",
    "interval_through",
    "relaxed",
    "settled",
]

Limits = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Chords:
    """v_{chosen} ≤ max_i v_i ≤ Σ_i weight_i·v_i + offset: chosen (B, out), weight (B, out, window), offset (B, out).

    With t the largest lower limit, max_i v_i ≤ t + Σ_i max(v_i − t, 0), and each max(v_i − t, 0) is below its chord on
    [l_i, u_i]; or the largest upper limit, where that is lower in the middle.
    """

    chosen: Tensor
    weight: Tensor
    offset: Tensor
    receivers: tuple[Tensor, ...]
    """For each input, where in (out, window) it is: `receivers_of`."""
    size: Tensor

    def taken(self, index: Tensor) -> Chords:
        """The chords of these samples."""
        chosen, weight, offset = self.chosen[index], self.weight[index], self.offset[index]
        return Chords(chosen, weight, offset, self.receivers, self.size[index])


@dataclass(frozen=True, eq=False)
class LinearPiece:
    """x·y = c_x·y + c_y·x − c_x·c_y + (x − c_x)(y − c_y), the last term at most r_x·r_y in size.

    The mean of McCormick's two planes on either side.
    """

    centres: tuple[Tensor, Tensor]
    radii: tuple[Tensor, Tensor]
    product: Tensor
    rest: Tensor
    size: Tensor

    def taken(self, index: Tensor) -> LinearPiece:
        """The planes of these samples."""
        centres, radii = (tuple(part[index] for part in pair) for pair in (self.centres, self.radii))
        rest = (part[index] for part in (self.product, self.rest, self.size))
        return LinearPiece((centres[0], centres[1]), (radii[0], radii[1]), *rest)


@runtime_checkable
class RowRelaxation(Protocol):
    """A relaxation that has a line of its own for every row."""

    def backward(self, rows: Tensor, *, sized: bool = True) -> tuple[Tensor, Tensor | float, Tensor | float]:
        """Rows at the input, the constant (B, K), and the size of its terms, if that is asked for."""
        ...

    def taken(self, index: Tensor) -> RowRelaxation:
        """The relaxation of these samples."""
        ...


Relaxation = LinePair | Chords | LinearPiece | RowRelaxation


def dot_rows(rows: Tensor, vector: Tensor) -> Tensor:
    """rows·vector (B, K) for rows (B or 1, K, n) and vector (B or 1, n)."""
    if len(rows) == 1:
        return vector @ rows[0].T
    return (rows @ vector.unsqueeze(-1)).squeeze(-1)


def settled(curve: Curve, low: Tensor, high: Tensor) -> Tensor:
    """Where a piecewise-linear curve stays on one piece."""
    found = torch.ones_like(low, dtype=torch.bool)
    for place in curve.breaks:
        found &= (low >= place) | (high <= place)
    return found


def relaxed(operation: Operation, limits: Sequence[Limits]) -> Relaxation:
    """The relaxation of an operation whose inputs lie within these limits."""
    if isinstance(operation, CurveOf):
        low, high = limits[0]
        lines = lines_around(operation.curve, low, high)
        if math.isinf(operation.curve.domain):
            return lines
        # NaN makes every bound that needs it no bound
        return LinePair(
            *(torch.where(low > operation.curve.domain, part, math.nan) for part in vars(lines).values())
        )
    if isinstance(operation, LargestOf):
        return _chords(operation, *limits[0])
    assert isinstance(operation, ProductOf)
    first, second = (low + 0.5 * (high - low) for low, high in limits)
    radius, other = (
        torch.maximum(high - centre, centre - low)
        for (low, high), centre in zip(limits, (first, second), strict=True)
    )
    times = torch.matmul if operation.matrices else torch.mul
    rest = times(radius, other)
    size = times(first.abs() + radius, second.abs() + other)
    return LinearPiece((first, second), (radius, other), times(first, second), rest, 2 * size)


def _window(values: Tensor, members: Tensor) -> Tensor:
    return torch.nn.functional.pad(values.flatten(1), (0, 1), value=-math.inf)[:, members]


def _chords(operation: LargestOf, low: Tensor, high: Tensor) -> Chords:
    lower, upper = _window(low, operation.members), _window(high, operation.members)
    present = operation.members >= 0
    threshold = lower.amax(-1, keepdim=True)
    width = upper - lower
    rising = (upper - threshold) / torch.where(width > 0, width, 1.0)
    weight = torch.where(lower >= threshold, 1.0, torch.where(upper > threshold, rising, 0.0))
    weight = torch.where(present, weight, 0.0)
    finite = torch.where(present, lower, 0.0)
    offset = threshold.squeeze(-1) - (weight * finite).sum(-1)
    middle = torch.where(present, finite + 0.5 * torch.where(present, width, 0.0), -math.inf)
    highest = torch.where(present, upper, -math.inf).amax(-1)
    at_middle = offset + (weight * torch.where(present, middle, 0.0)).sum(-1)
    flat = (highest < at_middle) & ((upper > threshold) & present).sum(-1).gt(1)
    return Chords(
        chosen=middle.argmax(-1),
        weight=torch.where(flat.unsqueeze(-1), 0.0, weight),
        offset=torch.where(flat, highest, offset),
        receivers=operation.receivers,
        size=offset.abs() + (weight * torch.where(present, upper.abs().maximum(lower.abs()), 0.0)).sum(-1),
    )


def interval_through(
    operation: Operation,
    limits: Sequence[Limits],
    sizes: Sequence[Tensor],
    rounding: float,
    batch: MemberBatch | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Limits of the result from limits of the inputs, and the size of what is added up on the way to it."""
    if isinstance(operation, AffineMap):
        size, offset = operation.sizes(sizes, batch), operation.shift(batch)
        centre = operation.values([low + 0.5 * (high - low) for low, high in limits], batch)
        spread = operation.sizes([0.5 * (high - low) for low, high in limits], batch)
        if offset is not None:
            spread = spread - offset.abs()
        if not operation.rearranges:
            spread = spread + rounding * (size + spread)
        else:
            spread = spread * (1 + rounding) + rounding * centre.abs()
        return centre - spread, centre + spread, size
    if isinstance(operation, CurveOf):
        low, high = curve_range(operation.curve, *limits[0])
        inside = limits[0][0] > operation.curve.domain
        low, high = torch.where(inside, low, math.nan), torch.where(inside, high, math.nan)
    elif isinstance(operation, LargestOf):
        low, high = (
            _window(side, operation.members).amax(-1).reshape(-1, *operation.shape) for side in limits[0]
        )
    else:
        assert isinstance(operation, ProductOf)
        low, high = _product_range(operation, limits)
        spread = rounding * torch.maximum(low.abs(), high.abs())
        low, high = low - spread, high + spread
    return low, high, torch.maximum(low.abs(), high.abs())


def _product_range(operation: ProductOf, limits: Sequence[Limits]) -> Limits:
    (low, high), (other_low, other_high) = limits
    if operation.matrices:
        first, second = low.unsqueeze(-1), other_low.unsqueeze(-3)
        first_high, second_high = high.unsqueeze(-1), other_high.unsqueeze(-3)
    else:
        first, second, first_high, second_high = low, other_low, high, other_high
    corners = torch.stack([a * b for a in (first, first_high) for b in (second, second_high)])
    least, most = corners.amin(0), corners.amax(0)
    return (least.sum(-2), most.sum(-2)) if operation.matrices else (least, most)


def backward_through(
    operation: Operation,
    rows: Tensor,
    relaxation: Relaxation | None,
    batch: MemberBatch | None = None,
    *,
    sized: bool = True,
) -> tuple[tuple[Tensor, ...], Tensor | float, Tensor | float]:
    """Rows (b, K, *S_i) at each input, the constant (b, K), and (``sized``) the size of the terms of that constant."""
    if isinstance(operation, AffineMap):
        offset = operation.shift(batch)
        return operation.backward(rows, batch), 0.0 if offset is None else _shifted(rows, offset), 0.0
    if isinstance(relaxation, LinePair):
        positive, negative = rows.clamp(min=0), rows.clamp(max=0)
        low, high = relaxation.low_offset.flatten(1), relaxation.high_offset.flatten(1)
        shift = dot_rows(positive.flatten(2), low) + dot_rows(negative.flatten(2), high)
        back = positive * relaxation.low_slope.unsqueeze(1) + negative * relaxation.high_slope.unsqueeze(1)
        return (back,), shift, _size(rows.flatten(2), relaxation.size) if sized else 0.0
    if isinstance(relaxation, RowRelaxation):
        back, constant, size = relaxation.backward(rows, sized=sized)
        return (back,), constant, size
    if isinstance(relaxation, Chords):
        back, shift = _through_chords(rows, relaxation)
        return (back,), shift, _size(rows.flatten(2), relaxation.size) if sized else 0.0
    assert isinstance(relaxation, LinearPiece)
    both, shift = _through_plane(operation, rows, relaxation)
    return both, shift, _size(rows.flatten(2), relaxation.size) if sized else 0.0


def _shifted(rows: Tensor, offset: Tensor) -> Tensor:
    """rows·b for the offset of one network, or of each sample's."""
    one = offset.ndim == rows.ndim - 2
    return rows.flatten(2) @ offset.flatten() if one else dot_rows(rows.flatten(2), offset.flatten(1))


def _size(rows: Tensor, size: Tensor) -> Tensor:
    return dot_rows(rows.abs(), size.flatten(1))


def _through_chords(rows: Tensor, chords: Chords) -> tuple[Tensor, Tensor]:
    """Positive rows go to the input chosen, negative ones to all of a window by their weights."""
    flat = rows.flatten(2)
    negative = flat.clamp(max=0)
    chosen = torch.nn.functional.one_hot(chords.chosen, chords.weight.shape[-1]).to(chords.weight)
    weight = torch.where((flat >= 0).unsqueeze(-1), chosen.unsqueeze(1), chords.weight.unsqueeze(1))
    terms = torch.nn.functional.pad((flat.unsqueeze(-1) * weight).flatten(2), (0, 1))
    back = terms[..., chords.receivers[0]]
    for other in chords.receivers[1:]:
        back = back + terms[..., other]
    return back, dot_rows(negative, chords.offset)


def _through_plane(
    operation: Operation, rows: Tensor, plane: LinearPiece
) -> tuple[tuple[Tensor, ...], Tensor]:
    first, second = plane.centres
    assert isinstance(operation, ProductOf)
    if operation.matrices:
        back = (
            rows @ second.transpose(-1, -2).unsqueeze(1),
            first.transpose(-1, -2).unsqueeze(1) @ rows,
        )
    else:
        back = (rows * second.unsqueeze(1), rows * first.unsqueeze(1))
    flat = rows.flatten(2)
    shift = -dot_rows(flat, plane.product.flatten(1)) - dot_rows(flat.abs(), plane.rest.flatten(1))
    return back, shift
