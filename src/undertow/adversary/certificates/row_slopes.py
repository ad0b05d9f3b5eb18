"""Activations bounded by a line of its own for every row and neuron, and by the ball for all neurons together.

For rows c and slopes a, with g = c·a, c·f(z) ≥ g·z + h for l ≤ z ≤ u with h = Σ_i min_{l_i ≤ t ≤ u_i} c_i f(t) − g_i t.
Where also Σ_i w_i (z_i − ẑ_i)² ≤ ρ² is known, weak duality gives for every λ ≥ 0

    h = −λρ²/2 + Σ_i min_{l_i ≤ t ≤ u_i} [c_i f(t) − g_i t + λ w_i (t − ẑ_i)²/2]:

the added term is at most λρ²/2 on the ball, so that taking it off again leaves a lower bound. λ = 0 is the bound
without the ball; with w = 1, no limits and the layer's own ball this is the bound of SDP-CROWN (Chiu et al. 2025). The
interval is cut into pieces, on each of which f lies between two lines (one and the same for a kink), so that the
minimum is at the vertex of a parabola or at an end of its piece. By the envelope theorem the derivatives by a and λ are
those with t held fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from undertow.adversary.certificates.activation_curves import Curve
from undertow.adversary.certificates.ball_coupling import BallCoupling
from undertow.adversary.certificates.relaxations import LinePair, lines_around, lowest_offset

__all__ = ["CurvePiece", "RowSlopes", "pieces_of"]

_PIECES = 4


@dataclass(frozen=True, eq=False)
class CurvePiece:
    """Two lines around the curve from ``start`` to ``stop``, all of shape (B, *S)."""

    start: Tensor
    stop: Tensor
    lines: LinePair

    def taken(self, index: Tensor) -> CurvePiece:
        """The pieces of these samples."""
        return CurvePiece(self.start[index], self.stop[index], self.lines.taken(index))


def pieces_of(curve: Curve, low: Tensor, high: Tensor) -> tuple[CurvePiece, ...]:
    """The interval cut at the kink, where that is all there is to the curve; else into equal pieces."""
    if curve.homogeneous:
        cuts = [low, low.clamp(min=0).minimum(high), high]
    else:
        cuts = [low + (high - low) * (part / _PIECES) for part in range(_PIECES)] + [high]
    return tuple(CurvePiece(start, stop, lines_around(curve, start, stop)) for start, stop in pairwise(cuts))


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

    def taken(self, index: Tensor) -> RowSlopes:
        """The slopes of these samples."""
        coupling = None if self.coupling is None else self.coupling.taken(index)
        level = None if self.level is None else self.level[index]
        pieces = tuple(piece.taken(index) for piece in self.pieces)
        extra = None if self.extra is None else self.extra[index]
        return RowSlopes(
            self.curve, self.low[index], self.high[index], self.slope[index], coupling, level, pieces, extra
        )

    def backward(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rows at the activation's input, the constant (B, K), and the size of its terms."""
        back = rows * self.slope if self.extra is None else rows * self.slope + self.extra
        low, high = self.low.unsqueeze(1), self.high.unsqueeze(1)
        largest = torch.maximum(low.abs(), high.abs())
        size = ((rows.abs() * (1 + self.slope.abs()) + back.abs()) * largest).flatten(2).sum(2)
        if self.coupling is None or self.level is None:
            if self.extra is not None:
                terms = self._pieced(rows, back, torch.zeros_like(rows), torch.zeros_like(rows))
                return back, terms.flatten(2).sum(2), size + terms.detach().abs().flatten(2).sum(2)
            terms = rows.abs() * self._offsets(rows, low, high)
            return back, terms.flatten(2).sum(2), size + terms.detach().abs().flatten(2).sum(2)
        column = (*self.level.shape, *[1] * (rows.ndim - 2))
        bend = self.level.reshape(column) * self.coupling.weight.unsqueeze(1)
        terms = self._pieced(rows, back, bend, self.coupling.centre.unsqueeze(1))
        paid = 0.5 * self.level * self.coupling.square.unsqueeze(1)
        sizes = size + paid.abs() + terms.detach().abs().flatten(2).sum(2)
        return back, terms.flatten(2).sum(2) - paid, sizes

    def costs(self, rows: Tensor, values: Tensor) -> Tensor:
        """c·f(z) − (g·z + h) ≥ 0 of every neuron at the inputs z (B, *S) within the limits: what its line loses."""
        back = rows * self.slope if self.extra is None else rows * self.slope + self.extra
        z, nothing = values.unsqueeze(1), torch.zeros_like(rows)
        return rows * self.curve.value(z) - back * z - self._pieced(rows, back, nothing, nothing)

    def _offsets(self, rows: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """min ±f(t) ∓ a·t, the sign that of the row."""
        low, high = low.expand_as(self.slope), high.expand_as(self.slope)
        slope = self.slope.detach()
        with torch.no_grad():
            below, at_below = lowest_offset(self.curve, 1, slope, low, high)
            above, at_above = lowest_offset(self.curve, -1, -slope, low, high)
        moved = self.slope - slope
        return torch.where(rows >= 0, below - at_below * moved, above + at_above * moved)

    def _pieced(self, rows: Tensor, back: Tensor, bend: Tensor, centre: Tensor) -> Tensor:
        """min over the pieces of (c·d − g)·t + c·b + λw(t − ẑ)²/2, with d·t + b the piece's line on the side of c."""
        up = rows >= 0
        found: Tensor | None = None
        for piece in self.pieces:
            lines = piece.lines
            side = torch.where(up, lines.low_slope.unsqueeze(1), lines.high_slope.unsqueeze(1))
            offset = torch.where(up, lines.low_offset.unsqueeze(1), lines.high_offset.unsqueeze(1))
            tilt = rows * side - back
            with torch.no_grad():
                at = centre - tilt / bend.clamp(min=1e-300)
                at = torch.minimum(torch.maximum(at, piece.start.unsqueeze(1)), piece.stop.unsqueeze(1))
            value = tilt * at + rows * offset + 0.5 * bend * (at - centre) ** 2
            found = value if found is None else torch.minimum(found, value)
        assert found is not None
        return found
