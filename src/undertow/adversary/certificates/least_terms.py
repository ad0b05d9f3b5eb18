"""The smallest value of c·f(t) − g·t + λw(t − ẑ)²/2 over an interval, for every row and neuron at once.

The interval is cut into pieces, on each of which f lies between two lines (one and the same beside a kink), so that the
minimum is at the vertex of a parabola or at an end of its piece. By the envelope theorem the derivatives by c, g and λ
are those with t held fixed: f's line at t, −t and w(t − ẑ)²/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from undertow.adversary.certificates.activation_curves import Curve
from undertow.adversary.certificates.ball_coupling import BallCoupling
from undertow.adversary.certificates.relaxations import LinePair, lines_around

__all__ = ["CurvePiece", "least_sum", "least_terms", "pieces_of"]

_PIECES = 4


@dataclass(frozen=True, eq=False)
class CurvePiece:
    """Two lines around the curve from ``start`` to ``stop``, all of shape (B, *S); ``straight`` where they are one."""

    start: Tensor
    stop: Tensor
    lines: LinePair
    straight: bool

    def taken(self, index: Tensor) -> CurvePiece:
        """The pieces of these samples."""
        return CurvePiece(self.start[index], self.stop[index], self.lines.taken(index), self.straight)


def pieces_of(curve: Curve, low: Tensor, high: Tensor) -> tuple[CurvePiece, ...]:
    """The interval cut at the kink, where that is all there is to the curve; else into equal pieces."""
    if curve.homogeneous:
        cuts = [low, low.clamp(min=0).minimum(high), high]
    else:
        cuts = [low + (high - low) * (part / _PIECES) for part in range(_PIECES)] + [high]
    return tuple(
        CurvePiece(start, stop, lines_around(curve, start, stop), curve.homogeneous)
        for start, stop in pairwise(cuts)
    )


def least_terms(
    rows: Tensor,
    back: Tensor,
    level: Tensor | None,
    coupling: BallCoupling | None,
    pieces: tuple[CurvePiece, ...],
) -> tuple[Tensor, Tensor, Tensor]:
    """min over all pieces of (c·d − g)·t + c·b + λw(t − ẑ)²/2, d·t + b the line on the side of c; t; and d·t + b.

    All (B, K, *S), for rows c and g of that shape, ``level`` λ (B, K), and w and ẑ of the coupling.

    >>> from undertow.adversary.certificates.activation_curves import curve_of
    >>> pieces = pieces_of(curve_of("relu"), torch.tensor([[-1.0]]).double(), torch.tensor([[2.0]]).double())
    >>> c, g = torch.tensor([[[-1.0]]]).double(), torch.tensor([[[-0.25]]]).double()
    >>> float(least_terms(c, g, None, None, pieces)[0])    # t/4 − max(t, 0) is smallest at 2
    -1.5
    """
    up = None if all(piece.straight for piece in pieces) else rows >= 0
    bend = centre = None
    if coupling is not None and level is not None:
        column = (*level.shape, *[1] * (rows.ndim - 2))
        bend, centre = level.reshape(column) * coupling.weight.unsqueeze(1), coupling.centre.unsqueeze(1)
        steepness = bend.clamp(min=1e-300)
    found: tuple[Tensor, Tensor, Tensor] | None = None
    for piece in pieces:
        start, stop, lines = piece.start.unsqueeze(1), piece.stop.unsqueeze(1), piece.lines
        slope, offset = lines.low_slope.unsqueeze(1), lines.low_offset.unsqueeze(1)
        if up is not None:
            slope = torch.where(up, slope, lines.high_slope.unsqueeze(1))
            offset = torch.where(up, offset, lines.high_offset.unsqueeze(1))
        tilt = torch.addcmul(-back, rows, slope)
        if bend is None or centre is None:
            at = torch.where(tilt > 0, start, stop)
            value = tilt * at
        else:
            at = torch.addcdiv(centre, tilt, steepness, value=-1)
            at = torch.minimum(torch.maximum(at, start), stop)
            value = torch.addcmul(tilt * at, bend, (at - centre).square(), value=0.5)
        line = slope * at
        if not piece.straight:
            value, line = torch.addcmul(value, rows, offset), line + offset
        if found is None:
            found = value, at, line
        else:
            lower = value < found[0]
            found = (
                torch.minimum(found[0], value),
                torch.where(lower, at, found[1]),
                torch.where(lower, line, found[2]),
            )
    assert found is not None
    return found


class _LeastSum(torch.autograd.Function):
    """The sum of `least_terms` over neurons, with the derivatives of the envelope theorem."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        back: Tensor,
        level: Tensor | None,
        coupling: BallCoupling | None,
        pieces: tuple[CurvePiece, ...],
    ) -> Tensor:
        terms, at, line = least_terms(rows, back, level, coupling, pieces)
        ctx.save_for_backward(at, line)
        ctx.coupling = coupling if level is not None else None
        return terms.flatten(2).sum(2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        at, line = ctx.saved_tensors
        grad = grads[0].reshape(*grads[0].shape, *[1] * (at.ndim - 2))
        by_level = None
        if ctx.coupling is not None and ctx.needs_input_grad[2]:
            away = (at - ctx.coupling.centre.unsqueeze(1)).square()
            by_level = (
                0.5 * grads[0] * torch.einsum("bkn,bn->bk", away.flatten(2), ctx.coupling.weight.flatten(1))
            )
        return grad * line, -grad * at, by_level, None, None


def least_sum(
    rows: Tensor,
    back: Tensor,
    level: Tensor | None,
    coupling: BallCoupling | None,
    pieces: tuple[CurvePiece, ...],
) -> Tensor:
    """Σ_i of `least_terms` (B, K), which autograd can follow."""
    found: Tensor = _LeastSum.apply(rows, back, level, coupling, pieces)  # type: ignore[no-untyped-call]
    return found
