"""Activations bounded by a line of its own for every row and neuron, and by the ball for all neurons together.

For rows c and slopes a, with g = c·a, c·f(z) ≥ g·z + h for l ≤ z ≤ u with h = Σ_i min_{l_i ≤ t ≤ u_i} c_i f(t) − g_i t.
Where also Σ_i w_i (z_i − ẑ_i)² ≤ ρ² is known, weak duality gives for every λ ≥ 0

    h = −λρ²/2 + Σ_i min_{l_i ≤ t ≤ u_i} [c_i f(t) − g_i t + λ w_i (t − ẑ_i)²/2]:

the added term is at most λρ²/2 on the ball, so that taking it off again leaves a lower bound. λ = 0 is the bound
without the ball; with w = 1, no limits and the layer's own ball this is the bound of SDP-CROWN (Chiu et al. 2025).
`least_terms` has the minima.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.certificates.activation_curves import Curve
from undertow.adversary.certificates.ball_coupling import BallCoupling
from undertow.adversary.certificates.least_terms import CurvePiece, least_sum, least_terms
from undertow.adversary.certificates.relaxations import LinePair, lowest_offset

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
    pieces: tuple[CurvePiece, ...] = ()
    extra: Tensor | None = None
    """Added to g, of any sign: what limits that end at a kink allow to take off."""
    lines: LinePair | None = None
    """Of a kink at zero without pieces: rows of one sign have the slope chosen, and no constant; others the chord."""

    def taken(self, index: Tensor) -> RowSlopes:
        """The slopes of these samples."""
        coupling = None if self.coupling is None else self.coupling.taken(index)
        level = None if self.level is None else self.level[index]
        pieces = tuple(piece.taken(index) for piece in self.pieces)
        extra = None if self.extra is None else self.extra[index]
        lines = None if self.lines is None else self.lines.taken(index)
        limits = self.low[index], self.high[index]
        return RowSlopes(self.curve, *limits, self.slope[index], coupling, level, pieces, extra, lines)

    def backward(self, rows: Tensor, *, sized: bool = True) -> tuple[Tensor, Tensor, Tensor | float]:
        """Rows at the activation's input, the constant (B, K), and the size of its terms, if that is asked for."""
        if self.lines is not None:
            return self._beside_a_kink(rows, self.lines, sized=sized)
        back = self._rows_before(rows)
        if self.pieces:
            constant = least_sum(rows, back, self.level, self.coupling, self.pieces)
        else:
            constant = (rows.abs() * self._offsets(rows)).flatten(2).sum(2)
        if self.coupling is not None and self.level is not None:
            constant = constant - 0.5 * self.level * self.coupling.square.unsqueeze(1)
        return back, constant, self._size(rows.detach(), back.detach()) if sized else 0.0

    def _beside_a_kink(
        self, rows: Tensor, lines: LinePair, *, sized: bool
    ) -> tuple[Tensor, Tensor, Tensor | float]:
        """f(z) = max(l·z, r·z) ≥ a·z for every z and l ≤ a ≤ r, and f is below its chord; a minimum the other way."""
        assert self.curve.ends is not None
        left, right = (side.to(rows) for side in self.curve.ends[0])
        convex = (right >= left).expand_as(self.low)
        chord = torch.where(convex, lines.high_slope, lines.low_slope).unsqueeze(1)
        offset = torch.where(convex, lines.high_offset, lines.low_offset).unsqueeze(1)
        free = (rows >= 0) == convex.unsqueeze(1)
        back = rows * torch.where(free, self.slope, chord)
        constant = torch.where(free, 0.0, rows * offset).flatten(2).sum(2)
        if not sized:
            return back, constant, 0.0
        largest = torch.maximum(self.low.abs(), self.high.abs()).unsqueeze(1)
        terms = rows.abs() * (offset.abs() + (1 + self.slope.abs() + chord.abs()) * largest)
        return back, constant, terms.detach().flatten(2).sum(2)

    def costs(self, rows: Tensor, values: Tensor) -> Tensor:
        """c·f(z) − (g·z + h) ≥ 0 of every neuron at the inputs z (B, *S) within the limits: what its line loses."""
        back = self._rows_before(rows)
        z = values.unsqueeze(1)
        return rows * self.curve.value(z) - back * z - least_terms(rows, back, None, None, self.pieces)[0]

    def _rows_before(self, rows: Tensor) -> Tensor:
        return rows * self.slope if self.extra is None else rows * self.slope + self.extra

    def _size(self, rows: Tensor, back: Tensor) -> Tensor:
        """The sum of the sizes of all terms of the constant, and of what they are the difference of."""
        largest = torch.maximum(self.low.abs(), self.high.abs()).unsqueeze(1)
        size = ((rows.abs() * (1 + self.slope.detach().abs()) + back.abs()) * largest).flatten(2).sum(2)
        if self.pieces:
            terms = least_terms(rows, back, self.level, self.coupling, self.pieces)[0]
        else:
            terms = rows * self._offsets(rows)
        size = size + terms.detach().abs().flatten(2).sum(2)
        if self.coupling is None or self.level is None:
            return size
        return size + 0.5 * (self.level * self.coupling.square.unsqueeze(1)).detach().abs()

    def _offsets(self, rows: Tensor) -> Tensor:
        """min ±f(t) ∓ a·t, the sign that of the row."""
        low, high = self.low.unsqueeze(1).expand_as(self.slope), self.high.unsqueeze(1).expand_as(self.slope)
        slope = self.slope.detach()
        with torch.no_grad():
            below, at_below = lowest_offset(self.curve, 1, slope, low, high)
            above, at_above = lowest_offset(self.curve, -1, -slope, low, high)
        moved = self.slope - slope
        return torch.where(rows >= 0, below - at_below * moved, above + at_above * moved)
