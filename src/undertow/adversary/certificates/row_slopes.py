"""Activations bounded by a line of its own for every row and neuron, and by the ball for all neurons together.

For rows c and slopes a, with g = c·a, c·f(z) ≥ g·z + h holds for l ≤ z ≤ u with h = Σ_i min_{l_i ≤ t ≤ u_i} c_i f(t) − g_i t.
Where also Σ_i w_i (z_i − ẑ_i)² ≤ ρ² is known, weak duality gives for every λ ≥ 0

    h = −λρ²/2 + Σ_i min_{l_i ≤ t ≤ u_i} [c_i f(t) − g_i t + λ w_i (t − ẑ_i)²/2]:

the added term is at most λρ²/2 on the ball, so that taking it off again leaves a lower bound. λ = 0 is the bound without
the ball; with w = 1, no limits and the layer's own ball this is Theorem 4.1 of SDP-CROWN (Chiu et al. 2025). For one kink
the minimum is on either side of it at the vertex of a parabola, or at an end. By the envelope theorem the derivatives by a
and λ are those with t held fixed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.certificates.activation_curves import Curve
from undertow.adversary.certificates.ball_coupling import BallCoupling
from undertow.adversary.certificates.relaxations import lowest_offset

__all__ = ["RowSlopes"]


@dataclass(frozen=True, eq=False)
class RowSlopes:
    """A relaxation with ``slope`` (B, K, *S), and with a coupling the multipliers ``level`` (B, K)."""

    curve: Curve
    low: Tensor
    high: Tensor
    slope: Tensor
    coupling: BallCoupling | None = None
    level: Tensor | None = None

    def backward(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rows at the activation's input, the constant (B, K), and the size of its terms."""
        back = rows * self.slope
        low, high = self.low.unsqueeze(1), self.high.unsqueeze(1)
        largest = torch.maximum(low.abs(), high.abs())
        size = (rows.abs() * (1 + self.slope.abs()) * largest).flatten(2).sum(2)
        if self.coupling is None or self.level is None:
            terms = rows.abs() * self._offsets(rows, low, high)
            return back, terms.flatten(2).sum(2), size + terms.detach().abs().flatten(2).sum(2)
        terms = self._coupled(rows, back, low, high, self.coupling, self.level)
        paid = 0.5 * self.level * self.coupling.square.unsqueeze(1)
        sizes = size + paid.abs() + terms.detach().abs().flatten(2).sum(2)
        return back, terms.flatten(2).sum(2) - paid, sizes

    def _offsets(self, rows: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """min ±f(t) ∓ a·t, the sign that of the row."""
        low, high = low.expand_as(self.slope), high.expand_as(self.slope)
        slope = self.slope.detach()
        with torch.no_grad():
            below, at_below = lowest_offset(self.curve, 1, slope, low, high)
            above, at_above = lowest_offset(self.curve, -1, -slope, low, high)
        moved = self.slope - slope
        return torch.where(rows >= 0, below - at_below * moved, above + at_above * moved)

    def _coupled(
        self, rows: Tensor, back: Tensor, low: Tensor, high: Tensor, coupling: BallCoupling, level: Tensor
    ) -> Tensor:
        """min over both sides of the kink of (c·d − g)·t + λw(t − ẑ)²/2."""
        assert self.curve.ends is not None
        column = (*level.shape, *[1] * (rows.ndim - 2))
        bend = level.reshape(column) * coupling.weight.unsqueeze(1)
        centre = coupling.centre.unsqueeze(1)
        found = None
        for side, start, stop in zip(
            self.curve.ends[0], (low.clamp(max=0), low.clamp(min=0)), (high.clamp(max=0), high.clamp(min=0)), strict=True
        ):
            tilt = rows * side.to(rows) - back
            with torch.no_grad():
                at = centre - tilt / bend.clamp(min=1e-300)
                at = torch.minimum(torch.maximum(at, start), stop)
            value = tilt * at + 0.5 * bend * (at - centre) ** 2
            found = value if found is None else torch.minimum(found, value)
        assert found is not None
        return found
