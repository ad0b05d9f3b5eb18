"""Bounds of every Jacobian on a ball: a centre, and an error of which every entry and the length are bounded.

Backward through the graph, rows of the Jacobian are C + E with |E| ≤ ``entries`` and ‖E‖₂ ≤ ``length``. A map W gives
C W + E W, where |E W| ≤ entries·|W| and ‖E W‖₂ ≤ ‖W‖₂·length; an activation with slopes d ∈ c ± r on the ball gives
C·c + (C·(d − c) + E·d), of which |C|·r + entries·max|d| bounds the entries and ‖|C|·r‖₂ + length·max|d| the length.
Where the slopes are known (r = 0) nothing is lost; elsewhere each bound repairs what the other one loses, and the
length never exceeds that of the entries. Rounding is part of the error: γ·|C|·|W| with every product (Higham 2002).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.ball_lengths import BallLengths
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.operations import AffineMap, CurveOf, LargestOf, Operation, ProductOf
from undertow.adversary.certificates.relaxations import slope_range

__all__ = ["JacobianBounds", "RowBounds"]


@dataclass(frozen=True, eq=False)
class RowBounds:
    """Rows centre + E with |E| ≤ ``entries`` (both (B, K, *S)) and ‖E‖₂ ≤ ``length`` (B, K)."""

    centre: Tensor
    entries: Tensor
    length: Tensor

    def plus(self, other: RowBounds) -> RowBounds:
        return RowBounds(self.centre + other.centre, self.entries + other.entries, self.length + other.length)

    def shortened(self) -> RowBounds:
        total = torch.linalg.vector_norm(self.entries.flatten(2), dim=2)
        return RowBounds(self.centre, self.entries, torch.minimum(self.length, total))

    def norms(self, norm: float) -> Tensor:
        """The largest dual norm (B, K) of a row: of the gradient of one function, in the norm of the ball."""
        largest = self.centre.flatten(2).abs() + self.entries.flatten(2)
        largest = torch.nan_to_num(largest, nan=math.inf, posinf=math.inf)
        if norm == math.inf:
            return largest.sum(-1)
        if norm == 1:
            return largest.amax(-1)
        apart = torch.linalg.vector_norm(self.centre.flatten(2), dim=2) + self.length
        return _no_less(torch.minimum(torch.linalg.vector_norm(largest, dim=2), apart))

    def matrix_norms(self, norm: float) -> Tensor:
        """The largest norm (B,) of the Jacobian whose rows these are, induced by ``norm`` on both sides."""
        centre = self.centre.flatten(2)
        largest = torch.nan_to_num(centre.abs() + self.entries.flatten(2), nan=math.inf, posinf=math.inf)
        if norm == math.inf:
            return largest.sum(2).amax(1)
        if norm == 1:
            return largest.sum(1).amax(1)
        rest = torch.minimum(_spectral(self.entries.flatten(2)), torch.linalg.vector_norm(self.length, dim=1))
        return _no_less(torch.minimum(_spectral(largest), _spectral(centre) + rest))


def _no_less(found: Tensor) -> Tensor:
    """∞ where nothing is known, and what squares that vanish may have lost."""
    return torch.nan_to_num(found, nan=math.inf, posinf=math.inf) + torch.where(found > 0, 1e-150, 0.0)


def _spectral(rows: Tensor) -> Tensor:
    finite = rows.isfinite().flatten(1).all(1)
    found = torch.linalg.matrix_norm(torch.where(finite[:, None, None], rows, 0.0), 2) * (1 + 1e-10)
    return torch.where(finite, found, math.inf)


class JacobianBounds:
    """Jacobian bounds of one network; ‖W‖₂ of its maps are computed once."""

    def __init__(self, bounds: LinearBounds) -> None:
        self.bounds, self.graph = bounds, bounds.graph
        self.lengths = bounds.lengths or BallLengths(bounds.graph, bounds.rounding)

    def rows(self, ball: BallBounds, rows: Tensor) -> RowBounds:
        """Bounds of rows·J at the input, for rows (B, K, *S) at the scores, over the balls."""
        start = RowBounds(rows, torch.zeros_like(rows), rows.new_zeros(rows.shape[:2]))
        pending: dict[int, RowBounds] = {self.graph.output: start}
        for index in range(self.graph.output, 0, -1):
            if index not in pending:
                continue
            operation, current = self.graph.operations[index], pending.pop(index)
            for source, part in zip(
                operation.inputs, self._through(index, operation, current, ball), strict=True
            ):
                part = part.shortened()
                pending[source] = pending[source].plus(part) if source in pending else part
        return pending[0].shortened() if 0 in pending else self._nothing(rows)

    def _nothing(self, rows: Tensor) -> RowBounds:
        zero = rows.new_zeros(*rows.shape[:2], *self.graph.operations[0].shape)
        return RowBounds(zero, zero, rows.new_zeros(rows.shape[:2]))

    def _through(
        self, index: int, operation: Operation, rows: RowBounds, ball: BallBounds
    ) -> list[RowBounds]:
        limits = [ball.limits[at] for at in operation.inputs]
        if isinstance(operation, AffineMap):
            return self._through_map(index, operation, rows, ball)
        if isinstance(operation, CurveOf):
            return [_times(rows, *slope_range(operation.curve, *limits[0]), self.bounds.rounding)]
        if isinstance(operation, LargestOf):
            shape = self.graph.operations[operation.inputs[0]].shape
            return [_through_largest(operation, rows, limits[0], shape)]
        assert isinstance(operation, ProductOf)
        if not operation.matrices:
            return [_times(rows, *limits[at], self.bounds.rounding) for at in (1, 0)]
        return [_times_matrix(rows, *limits[1 - at], at, self.bounds.rounding) for at in (0, 1)]

    def _through_map(
        self, index: int, operation: AffineMap, rows: RowBounds, ball: BallBounds
    ) -> list[RowBounds]:
        batch = ball.batch
        centres = operation.backward(rows.centre, batch)
        grown = operation.backward_absolute(rows.entries, batch)
        sizes = None if operation.rearranges else operation.backward_absolute(rows.centre.abs(), batch)
        norms, found = self.lengths.norms_of(index, batch, ball.eps), []
        for at, (centre, entries) in enumerate(zip(centres, grown, strict=True)):
            length = norms[..., at].reshape(-1, 1) * rows.length
            if sizes is not None:
                rounded = self.bounds.rounding * (sizes[at] + entries)
                entries = entries + rounded
                length = length + torch.linalg.vector_norm(rounded.flatten(2), dim=2)
            found.append(RowBounds(centre, entries, length))
        return found


def _times(rows: RowBounds, low: Tensor, high: Tensor, rounding: float) -> RowBounds:
    """Rows times numbers between low and high, entry by entry."""
    middle = (low + 0.5 * (high - low)).unsqueeze(1)
    apart = torch.maximum(high.unsqueeze(1) - middle, middle - low.unsqueeze(1))
    apart = apart + rounding * middle.abs()
    most = torch.maximum(low.abs(), high.abs()).unsqueeze(1)
    own = rows.centre.abs() * apart
    length = torch.linalg.vector_norm(own.flatten(2), dim=2) + rows.length * most.flatten(2).amax(2)
    return RowBounds(rows.centre * middle, own + rows.entries * most, length)


def _times_matrix(rows: RowBounds, low: Tensor, high: Tensor, at: int, rounding: float) -> RowBounds:
    """rows·yᵀ (at = 0) or xᵀ·rows (at = 1) with the matrix between low and high."""
    middle = low + 0.5 * (high - low)
    apart = torch.maximum(high - middle, middle - low) + rounding * middle.abs()

    def times(given: Tensor, matrix: Tensor) -> Tensor:
        turned = matrix.transpose(-1, -2).unsqueeze(1)
        return given @ turned if at == 0 else turned @ given

    size = rows.centre.abs()
    entries = times(size, apart + rounding * middle.abs()) + times(rows.entries, middle.abs() + apart)
    return RowBounds(times(rows.centre, middle), entries, torch.full_like(rows.length, math.inf))


def _through_largest(
    operation: LargestOf, rows: RowBounds, limits: tuple[Tensor, Tensor], shape: tuple[int, ...]
) -> RowBounds:
    """A maximum passes its row to one of the inputs that can be the largest; half of it to each is the centre."""
    low, high = (
        torch.nn.functional.pad(side.flatten(1), (0, 1), value=-math.inf)[:, operation.members]
        for side in limits
    )
    possible = ~(high < low.amax(-1, keepdim=True)) & (operation.members >= 0)  # also where limits are NaN
    alone = possible.sum(-1, keepdim=True) == 1
    middle = torch.where(possible, torch.where(alone, 1.0, 0.5), 0.0).to(low)
    apart = torch.where(possible & ~alone, 0.5, 0.0).to(low)
    batch, count = rows.centre.shape[:2]

    def scattered(given: Tensor, weight: Tensor) -> Tensor:
        terms = (given.flatten(2).unsqueeze(-1) * weight.unsqueeze(1)).flatten(2)
        terms = torch.nn.functional.pad(terms, (0, 1))
        back = sum(
            (terms[..., place] for place in operation.receivers[1:]), terms[..., operation.receivers[0]]
        )
        return back.reshape(batch, count, *shape)

    error = scattered(rows.centre.abs(), apart) + scattered(rows.entries, possible.to(low))
    own = torch.linalg.vector_norm(scattered(rows.centre.abs(), apart).flatten(2), dim=2)
    # an input in m windows takes the rows of at most m outputs
    overlap = math.sqrt(len(operation.receivers))
    return RowBounds(scattered(rows.centre, middle), error, own + overlap * rows.length)
