"""Rows carried backward through a graph, from one operation's result to an earlier one's."""

from __future__ import annotations

from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.network_graph import NetworkGraph
from undertow.adversary.certificates.node_bounds import backward_through, dot_rows
from undertow.adversary.certificates.operations import AffineMap

__all__ = ["affine_rows", "carried_rows"]


def affine_rows(graph: NetworkGraph, rows: Tensor, at: int, stop: int) -> tuple[Tensor, Tensor]:
    """rows·value of one operation as rows (K, *S)·value of another plus a constant (K,), through affine maps alone."""
    back, constant, _ = carried_rows(graph, rows.unsqueeze(0), at, stop, None)
    nothing = rows.new_zeros(len(rows))
    return back[0], constant[0] if isinstance(constant, Tensor) else nothing + constant


def carried_rows(
    graph: NetworkGraph,
    rows: Tensor,
    at: int,
    stop: int,
    ball: BallBounds | None,
    met: dict[int, Tensor] | None = None,
    *,
    sized: bool = True,
) -> tuple[Tensor, Tensor | float, Tensor | float]:
    """Rows at the operation ``stop``, the constant, and (``sized``) what the terms on the way can add up to.

    ``met`` is told the rows at every operation on the way.
    """
    pending: dict[int, Tensor] = {at: rows}
    constant: Tensor | float = 0.0
    sizes: Tensor | float = 0.0
    batch = None if ball is None else ball.batch
    for index in range(at, stop, -1):
        if index not in pending:
            continue
        current, operation = pending.pop(index), graph.operations[index]
        if met is not None:
            met[index] = current
        if sized and ball is not None and not (isinstance(operation, AffineMap) and operation.rearranges):
            sizes = sizes + dot_rows(current.flatten(2).abs(), ball.sizes[index].flatten(1))
        relaxation = None if ball is None else ball.relaxations.get(index)
        parts, shift, size = backward_through(operation, current, relaxation, batch, sized=sized)
        constant, sizes = constant + shift, sizes + size
        for source, part in zip(operation.inputs, parts, strict=True):
            part = part.reshape(*part.shape[:2], *graph.operations[source].shape)
            pending[source] = pending[source] + part if source in pending else part
    nothing = rows.new_zeros(*rows.shape[:2], *graph.operations[stop].shape)
    back = pending.get(stop, nothing)
    if sized and ball is not None:
        sizes = sizes + dot_rows(back.flatten(2).abs(), ball.sizes[stop].flatten(1))
    return back, constant, sizes
