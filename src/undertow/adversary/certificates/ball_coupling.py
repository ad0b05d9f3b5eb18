"""What the L2 ball says of all neurons of a layer together: Σ_i weight_i·(z_i − ẑ_i)² ≤ square on the ball.

Limits of every neuron apart allow the corner of their box, where all are at their ends at once; the ball does not. With
z = W a + b, ‖a − â‖ ≤ ℓ and weight_i = 1/(‖w_i‖ℓ)², each term is at most 1 and their sum at most the largest eigenvalue
of the Gram matrix of the normed rows w_i/‖w_i‖: of n neurons with inputs of dimension d about (1 + √(n/d))², not n.
Neurons that are on one side of their kink need no relaxation, so their rows are left out.

The lengths ℓ are those of `ball_lengths`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.node_bounds import settled
from undertow.adversary.certificates.operations import AffineMap, CurveOf
from undertow.adversary.certificates.row_budget import row_entries
from undertow.adversary.certificates.spectral_bounds import convolution_norm, matrix_norm

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
    """The couplings of one network's activations; norms of its maps are computed once."""

    def __init__(self, bounds: LinearBounds) -> None:
        self.bounds, self.graph = bounds, bounds.graph
        self._layers: dict[int, tuple[Tensor, float, Tensor | None]] = {}

    def on(self, ball: BallBounds) -> dict[int, BallCoupling]:
        """For each activation, what the ball says of its inputs; nothing in other norms."""
        if self.bounds.norm != 2:
            return {}
        found = {}
        for index, operation in enumerate(self.graph.operations):
            if isinstance(operation, CurveOf) and math.isinf(operation.curve.domain):
                coupling = self._coupling(operation, ball)
                if coupling is not None:
                    found[index] = coupling
        return found

    def _coupling(self, operation: CurveOf, ball: BallBounds) -> BallCoupling | None:
        at = operation.inputs[0]
        source, centre = self.graph.operations[at], ball.values[at]
        low, high = ball.limits[at]
        open_ended = ~settled(operation.curve, low, high) if operation.curve.straight else high > low
        ones = torch.ones_like(centre)
        column = (-1, *[1] * (centre.ndim - 1))
        if not isinstance(source, AffineMap) or (source.matrix is None and source.kernel is None):
            length = ball.lengths[at].clamp(min=1e-300).reshape(column)
            return BallCoupling(
                torch.where(open_ended, ones / length**2, 0.0), centre, torch.ones_like(ball.eps)
            )
        if at not in self._layers:
            self._layers[at] = _layer(source)
        norms, whole, gram = self._layers[at]
        length = ball.lengths[source.inputs[0]].clamp(min=1e-300).reshape(column)
        norms = norms.to(centre).reshape(1, *norms.shape) * length
        weight = torch.where(open_ended & (norms > 0), 1 / norms.clamp(min=1e-300) ** 2, 0.0)
        square = torch.full_like(ball.eps, whole) if gram is None else _masked(gram, whole, open_ended)
        count = open_ended.flatten(1).sum(1).to(square)
        return BallCoupling(weight, centre, torch.minimum(square, count) * ROUNDED)


def _layer(source: AffineMap) -> tuple[Tensor, float, Tensor | None]:
    """‖w_i‖ of every neuron, shaped to broadcast against a result; ‖w_i/‖w_i‖‖₂² of all normed rows; their Gram matrix."""
    if source.matrix is not None:
        norms = torch.linalg.vector_norm(source.matrix, dim=0)
        rows = source.matrix.T / torch.where(norms > 0, norms, 1.0).unsqueeze(1)
        places = math.prod(source.shape) // len(norms)
        gram = rows @ rows.T if places == 1 and len(norms) <= _GRAM else None
        return norms, matrix_norm(rows) ** 2, gram
    assert source.kernel is not None
    norms = torch.linalg.vector_norm(source.kernel.flatten(1), dim=1)
    axes = (-1, *[1] * (source.kernel.ndim - 1))
    rows = source.kernel / torch.where(norms > 0, norms, 1.0).reshape(axes)
    return norms.reshape(-1, *[1] * (source.kernel.ndim - 2)), convolution_norm(rows, source.stride) ** 2, None


def _masked(gram: Tensor, whole: float, open_ended: Tensor) -> Tensor:
    """The largest eigenvalue (B,) of the Gram matrix on the open rows, below the trace of its eighth power."""
    keep = open_ended.flatten(1).to(gram)
    scale = max(whole, 1e-300)

    def eighth(part: Tensor) -> Tensor:
        power = gram / scale * part.unsqueeze(1) * part.unsqueeze(2)
        power = power @ power
        return (power @ power).flatten(1).square().sum(1)

    at_once = max(1, row_entries(gram.device) // gram.numel())
    powers = torch.cat([eighth(part) for part in torch.split(keep, at_once)])
    return (scale * powers ** (1 / 8)).clamp(max=whole)
