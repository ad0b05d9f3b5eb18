"""How far each operation's result can go in L2 length, while the input moves in an L2 ball.

‖v − v̂‖₂ goes forward: ε at the input, times ‖W‖₂ at a map, times the largest slope on the ball at an activation, and
never more than the box of the limits allows. Each neuron of the next layer then moves by at most ‖w_i‖₂ times that.

|f(z) − f(ẑ)| is at most |z − ẑ| times the largest slope between z and ẑ. Limits of a part of the ball may leave ẑ out,
as those of a case do that x is not in: slopes are taken on the interval that has both.

v̂ is what float64 computed at x, so rounding is part of the distance: with v̂ = W â + b + r, |r| ≤ γ(|W| m + |b|),
‖v − v̂‖₂ ≤ ‖W‖₂‖a − â‖₂ + ‖r‖₂. What was rounded before is in ‖a − â‖ already.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.member_batches import MemberBatch
from undertow.adversary.certificates.network_graph import NetworkGraph
from undertow.adversary.certificates.operations import AffineMap, CurveOf, InputValue, LargestOf
from undertow.adversary.certificates.relaxations import slope_range
from undertow.adversary.certificates.spectral_bounds import map_norms, neuron_norms
from undertow.adversary.certificates.stacked_maps import StackedMap

__all__ = ["BallLengths"]

_ROUNDED = 1 + 1e-9


class BallLengths:
    """Lengths through one network, or several stacked; norms of their maps are computed once."""

    def __init__(self, graph: NetworkGraph, rounding: float) -> None:
        self.graph, self.rounding = graph, rounding
        self._norms: dict[int, Tensor] = {}
        self._neurons: dict[int, Tensor | None] = {}

    def norms_of(self, index: int, batch: MemberBatch | None, like: Tensor) -> Tensor:
        """‖W_i‖₂ of each input of an affine map, from above: (inputs,), or (B, inputs) of several networks."""
        if index not in self._norms:
            operation = self.graph.operations[index]
            assert isinstance(operation, AffineMap)
            maps = operation.maps if isinstance(operation, StackedMap) else (operation,)
            each = torch.tensor([map_norms(own) for own in maps], dtype=like.dtype, device=like.device)
            self._norms[index] = each if isinstance(operation, StackedMap) else each[0]
        return self._norms[index] if batch is None else batch.each(self._norms[index])

    def length(self, index: int, ball: BallBounds) -> Tensor:
        """A bound (B,) of ‖v − v̂‖₂ of one operation's result, whose limits are known already."""
        low, high = ball.limits[index]
        value = ball.values[index]
        apart = torch.maximum(high - value, value - low).clamp(min=0)
        box = torch.linalg.vector_norm(apart.flatten(1), dim=1) * _ROUNDED
        length = torch.nan_to_num(self._through(index, ball), nan=math.inf, posinf=math.inf)
        return torch.where(box.isnan(), length, torch.minimum(length, box))

    def _through(self, index: int, ball: BallBounds) -> Tensor:
        """The same from the lengths of the operation's inputs."""
        operation = self.graph.operations[index]
        given = [ball.lengths[at] for at in operation.inputs]
        if isinstance(operation, InputValue):
            return ball.eps
        if isinstance(operation, AffineMap):
            norms = self.norms_of(index, ball.batch, ball.eps)
            each = (norms[..., at] * own for at, own in enumerate(given))
            rounded = 0.0 if operation.rearranges else self._rounded(index, ball)
            return (sum(each, torch.zeros_like(ball.eps)) + rounded) * _ROUNDED
        if isinstance(operation, CurveOf):
            (low, high), centre = ball.limits[operation.inputs[0]], ball.values[operation.inputs[0]]
            low, high = low.minimum(centre), high.maximum(centre)
            least, most = slope_range(operation.curve, low, high)
            steepest = torch.maximum(least.abs(), most.abs()).flatten(1).amax(1)
            error = None if operation.curve.error is None else operation.curve.error(low, high)
            return (steepest * given[0] + self._rounded(index, ball, error)) * _ROUNDED
        if isinstance(operation, LargestOf):
            return math.sqrt(len(operation.receivers)) * given[0] * _ROUNDED
        return torch.full_like(ball.eps, math.inf)

    def _rounded(self, index: int, ball: BallBounds, more: Tensor | None = None) -> Tensor:
        """The length (B,) of what rounding, and ``more``, can do to one operation's value at x."""
        each = self.rounding * ball.sizes[index]
        each = each if more is None else each + more
        found: Tensor = torch.linalg.vector_norm(each.flatten(1), dim=1)
        return found

    def spread(self, index: int, ball: BallBounds) -> Tensor | None:
        """‖w_i‖₂·ℓ of every neuron of a layer, (B, …) to broadcast against its result; None for other operations.

        The rounding of this layer itself is not in it.
        """
        operation = self.graph.operations[index]
        if index not in self._neurons:
            self._neurons[index] = neuron_norms(operation) if isinstance(operation, AffineMap) else None
        norms = self._neurons[index]
        if norms is None:
            return None
        length = ball.lengths[operation.inputs[0]].reshape(-1, *[1] * len(operation.shape))
        return length * (norms if ball.batch is None else ball.batch.each(norms)) * _ROUNDED
