"""How far each operation's result can go in L2 length, while the input moves in an L2 ball.

‖v − v̂‖₂ goes forward: ε at the input, times ‖W‖₂ at a map, times the largest slope on the ball at an activation, and
never more than the box of the limits allows. Each neuron of the next layer then moves by at most ‖w_i‖₂ times that.

|f(z) − f(ẑ)| is at most |z − ẑ| times the largest slope between z and ẑ. Limits of a part of the ball may leave ẑ out,
as those of a case do that x is not in: slopes are taken on the interval that has both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from undertow.adversary.certificates.network_graph import NetworkGraph
from undertow.adversary.certificates.operations import AffineMap, CurveOf, InputValue, LargestOf
from undertow.adversary.certificates.relaxations import slope_range
from undertow.adversary.certificates.spectral_bounds import map_norms

__all__ = ["BallLengths"]

_ROUNDED = 1 + 1e-9
Limits = tuple[Tensor, Tensor]


class BallLengths:
    """Lengths through one network; norms of its maps are computed once."""

    def __init__(self, graph: NetworkGraph) -> None:
        self.graph = graph
        self._norms: dict[int, tuple[float, ...]] = {}

    def norms_of(self, index: int) -> tuple[float, ...]:
        """‖W_i‖₂ of each input of an affine map, from above."""
        operation = self.graph.operations[index]
        if index not in self._norms:
            assert isinstance(operation, AffineMap)
            self._norms[index] = map_norms(operation)
        return self._norms[index]

    def length(
        self,
        index: int,
        eps: Tensor,
        lengths: dict[int, Tensor],
        limits: dict[int, Limits],
        values: Sequence[Tensor],
    ) -> Tensor:
        """A bound (B,) of ‖v − v̂‖₂ of one operation's result, without the box of its own limits; ``values`` are v̂."""
        operation = self.graph.operations[index]
        given = [lengths[at] for at in operation.inputs]
        if isinstance(operation, InputValue):
            return eps
        if isinstance(operation, AffineMap):
            each = (norm * own for norm, own in zip(self.norms_of(index), given, strict=True))
            return sum(each, torch.zeros_like(eps)) * _ROUNDED
        if isinstance(operation, CurveOf):
            (low, high), centre = limits[operation.inputs[0]], values[operation.inputs[0]]
            least, most = slope_range(operation.curve, low.minimum(centre), high.maximum(centre))
            return torch.maximum(least.abs(), most.abs()).flatten(1).amax(1) * given[0] * _ROUNDED
        if isinstance(operation, LargestOf):
            return math.sqrt(len(operation.receivers)) * given[0] * _ROUNDED
        return torch.full_like(eps, math.inf)

    def within(self, length: Tensor, value: Tensor, limits: Limits) -> Tensor:
        """The shorter of a length and of the diagonal of the limits around the value."""
        apart = torch.maximum(limits[1] - value, value - limits[0]).clamp(min=0)
        box = torch.linalg.vector_norm(apart.flatten(1), dim=1) * _ROUNDED
        length = torch.nan_to_num(length, nan=math.inf, posinf=math.inf)
        return torch.where(box.isnan(), length, torch.minimum(length, box))

    def spread(self, index: int, lengths: dict[int, Tensor]) -> Tensor | None:
        """‖w_i‖₂·ℓ of every neuron of a layer, (B, …) to broadcast against its result; None for other operations."""
        operation = self.graph.operations[index]
        if not isinstance(operation, AffineMap) or (operation.matrix is None and operation.kernel is None):
            return None
        length = lengths[operation.inputs[0]]
        if operation.matrix is not None:
            norms: Tensor = torch.linalg.vector_norm(operation.matrix, dim=0)
        else:
            assert operation.kernel is not None
            norms = torch.linalg.vector_norm(operation.kernel.flatten(1), dim=1)
            norms = norms.reshape(-1, *[1] * (operation.kernel.ndim - 2))
        return length.reshape(-1, *[1] * len(operation.shape)) * norms * _ROUNDED
