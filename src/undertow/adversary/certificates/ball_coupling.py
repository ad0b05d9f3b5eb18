"""What the L2 ball says of all neurons of a layer together: Σ_i weight_i·(z_i − ẑ_i)² ≤ square on the ball.

Limits of every neuron apart allow the corner of their box, where all are at their ends at once; the ball does not. With
z = W a + b, ‖a − â‖ ≤ ℓ and weight_i = 1/(‖w_i‖ℓ)², each term is at most 1 and their sum at most the largest eigenvalue
of the Gram matrix of the normed rows w_i/‖w_i‖: of n neurons with inputs of dimension d about (1 + √(n/d))², not n.
Neurons that are on one side of their kink need no relaxation, so their rows are left out.

The lengths ℓ are those of `ball_lengths`. ẑ is what float64 computed, W â + b + r with |r_i| ≤ γ(|W| m + |b|)_i: so
weight_i = 1/(‖w_i‖ℓ + |r_i|)²; each term is again at most 1, and the root of their sum at most √λ + ‖√weight·r‖.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.member_batches import MemberBatch
from undertow.adversary.certificates.node_bounds import settled
from undertow.adversary.certificates.operations import AffineMap, CurveOf
from undertow.adversary.certificates.row_budget import in_parts, row_entries
from undertow.adversary.certificates.spectral_bounds import convolution_norm, matrix_norm, neuron_norms
from undertow.adversary.certificates.stacked_maps import StackedMap

__all__ = ["ROUNDED", "BallCoupling", "BallCouplings"]

_GRAM = 512  # neurons up to which the Gram matrix of a layer is formed
ROUNDED = 1 + 1e-9


@dataclass(frozen=True, eq=False)
class BallCoupling:
    """Σ_i weight_i·(z_i − centre_i)² ≤ square, for ``weight`` and ``centre`` (B, *S), ``square`` (B,)."""

    weight: Tensor
    centre: Tensor
    square: Tensor

    def taken(self, index: Tensor) -> BallCoupling:
        """The couplings of these samples."""
        return BallCoupling(self.weight[index], self.centre[index], self.square[index])


class BallCouplings:
    """The couplings of the activations of one network, or of several stacked; norms of maps are computed once."""

    def __init__(self, bounds: LinearBounds) -> None:
        self.bounds, self.graph = bounds, bounds.graph
        self._layers: dict[int, _NormedRows] = {}

    @staticmethod
    def of(bounds: LinearBounds) -> BallCouplings | None:
        """The couplings that go with these bounds, with norms that are computed once for all who ask; in L2 alone."""
        if bounds.norm != 2:
            return None
        key = BallCouplings, bounds.box
        if key not in bounds.graph.kept:
            bounds.graph.kept[key] = BallCouplings(bounds)
        found: BallCouplings = bounds.graph.kept[key]
        return found

    def on(self, ball: BallBounds) -> dict[int, BallCoupling]:
        """For each activation, what the ball says of its inputs; nothing in other norms."""
        if self.bounds.norm != 2:
            return {}
        return {
            index: self._coupling(operation, ball)
            for index, operation in enumerate(self.graph.operations)
            if isinstance(operation, CurveOf) and math.isinf(operation.curve.domain)
        }

    def _coupling(self, operation: CurveOf, ball: BallBounds) -> BallCoupling:
        at = operation.inputs[0]
        source, centre = self.graph.operations[at], ball.values[at]
        low, high = ball.limits[at]
        open_ended = ~settled(operation.curve, low, high) if operation.curve.straight else high > low
        column = (-1, *[1] * (centre.ndim - 1))
        if not isinstance(source, AffineMap) or (source.matrix is None and source.kernel is None):
            length = ball.lengths[at].reshape(column).expand_as(centre)
            return BallCoupling(_weights(length, open_ended), centre, torch.ones_like(ball.eps) * ROUNDED)
        if at not in self._layers:
            self._layers[at] = _normed_rows(source)
        rows = self._layers[at].of(ball.batch)
        rounded = self.bounds.rounding * ball.sizes[at]
        weight = _weights(rows.lengths * ball.lengths[source.inputs[0]].reshape(column) + rounded, open_ended)
        largest = rows.norm.expand_as(ball.eps) if rows.gram is None else _masked(rows, open_ended)
        beside = torch.linalg.vector_norm((weight.sqrt() * rounded).flatten(1), dim=1)
        count = open_ended.flatten(1).sum(1).to(largest)
        square = torch.minimum((largest.sqrt() + beside).square(), count)
        return BallCoupling(weight, centre, square * ROUNDED)


def _weights(lengths: Tensor, open_ended: Tensor) -> Tensor:
    """1/length² of open neurons; 0, which says nothing, of others and where a square would vanish or overflow."""
    usable = open_ended & (lengths > 1e-140) & (lengths < 1e140)
    return torch.where(usable, 1 / torch.where(usable, lengths, 1.0).square(), 0.0)


@dataclass(frozen=True, eq=False)
class _NormedRows:
    """‖w_i‖ of every neuron, to broadcast against a result; of all w_i/‖w_i‖ together ‖·‖₂² and the Gram matrix."""

    lengths: Tensor
    norm: Tensor
    gram: Tensor | None

    def of(self, batch: MemberBatch | None) -> _NormedRows:
        """Of several networks those of each sample's."""
        if batch is None:
            return self
        gram = None if self.gram is None else batch.each(self.gram)
        return _NormedRows(batch.each(self.lengths), batch.each(self.norm), gram)


def _normed_rows(source: AffineMap) -> _NormedRows:
    if isinstance(source, StackedMap):
        each = [_normed_rows(own) for own in source.maps]
        grams = [own.gram for own in each if own.gram is not None]
        return _NormedRows(
            torch.stack([own.lengths for own in each]),
            torch.stack([own.norm for own in each]),
            torch.stack(grams) if grams else None,
        )
    lengths = neuron_norms(source)
    assert lengths is not None
    divisors = torch.where(lengths > 0, lengths, 1.0).flatten()
    if source.matrix is not None:
        rows = source.matrix.T / divisors.unsqueeze(1)
        places = math.prod(source.shape) // len(rows)
        gram = rows @ rows.T if places == 1 and len(rows) <= _GRAM else None
        return _NormedRows(lengths, lengths.new_tensor(matrix_norm(rows) ** 2), gram)
    assert source.kernel is not None
    rows = source.kernel / divisors.reshape(-1, *[1] * (source.kernel.ndim - 1))
    return _NormedRows(lengths, lengths.new_tensor(convolution_norm(rows, source.stride) ** 2), None)


def _masked(rows: _NormedRows, open_ended: Tensor) -> Tensor:
    """The largest eigenvalue (B,) of the Gram matrix on the open rows, below the trace of its eighth power."""
    assert rows.gram is not None
    keep = open_ended.flatten(1).to(rows.gram)
    scale = rows.norm.clamp(min=1e-300).expand(len(keep))
    grams = rows.gram.expand(len(keep), -1, -1)

    def eighth(part: Tensor) -> Tensor:
        power = grams[part] / scale[part, None, None] * keep[part].unsqueeze(1) * keep[part].unsqueeze(2)
        power = power @ power
        return (power @ power).flatten(1).square().sum(1)

    size = row_entries(keep.device) // grams[0].numel()
    powers = torch.cat(in_parts(torch.arange(len(keep), device=keep.device), size, eighth))
    return torch.minimum(scale * powers ** (1 / 8), scale)
