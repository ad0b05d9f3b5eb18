"""Linear bounds that travel backward through a network's graph (CROWN, Zhang et al. 2018; over graphs, Xu et al. 2020).

Over a ball around x every activation lies between two lines, every maximum between one of its inputs and a sum of
chords, every product near a plane; replacing them, from the scores back to the input, bounds rows·scores from below by
A·x' + c on the ball, whose minimum `ball_minimum` gives. The limits of what enters an activation come from the same
pass with every entry as a row; where plain intervals show already that a piecewise-linear activation stays on one piece
they are enough.

Everything is in float64, and rounding is taken off. Where |z| ≤ m on the ball, rows·(W z + b) is wrong by at most
γ·|rows|·(|W| m + |b|), in whatever order it is summed (Higham 2002, §3.1), γ a little above (number of terms)·2⁻⁵³: so
the bounds are proofs about the network as written, in exact arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from undertow.adversary.certificates.affine_reach import AffineReach
from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.ball_lengths import BallLengths
from undertow.adversary.certificates.ball_minimum import Box, smallest_step
from undertow.adversary.certificates.carried_rows import carried_rows
from undertow.adversary.certificates.entry_rows import limits_of_entries, limits_on_patches
from undertow.adversary.certificates.lower_bounds import LowerBounds
from undertow.adversary.certificates.member_batches import MemberBatch
from undertow.adversary.certificates.network_graph import NetworkGraph
from undertow.adversary.certificates.node_bounds import dot_rows, interval_through, relaxed, settled
from undertow.adversary.certificates.operations import AffineMap, CurveOf, InputValue
from undertow.adversary.certificates.patch_networks import PatchNetwork, patch_network
from undertow.adversary.certificates.row_budget import row_entries, worthwhile

__all__ = ["LinearBounds", "Patches"]

Patches = tuple[PatchNetwork, "LinearBounds"]
EntryLimits = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class LinearBounds:
    """The bounds of one network, or of several stacked, in one norm; what samples do not change is computed once.

    In L2 limits are also those that the lengths of `ball_lengths` give; without ``lengths`` they are CROWN's alone.
    """

    def __init__(self, graph: NetworkGraph, norm: float, box: Box = None, *, lengths: bool = True) -> None:
        self.graph, self.norm, self.box = graph, norm, box
        self.widest = max(math.prod(operation.shape) for operation in graph.operations)
        # twice what sums of so many terms, a few operations on each and a sum over the operations can do
        self.rounding = (self.widest + len(graph.operations) + 32) * torch.finfo(torch.float64).eps
        self.reach = AffineReach(graph, norm)
        self._patches: dict[int, Patches | None] = {}
        self.work = _work_before(graph)
        self.lengths = BallLengths(graph, self.rounding) if norm == 2 and lengths else None
        self.wanted = {
            index
            for operation in graph.operations
            if not isinstance(operation, InputValue | AffineMap)
            for index in operation.inputs
        }

    @staticmethod
    def of(graph: NetworkGraph, norm: float, box: Box = None) -> LinearBounds:
        """The bounds of a graph, with norms and patches that are computed once for all who ask."""
        key = LinearBounds, norm, box
        if key not in graph.kept:
            graph.kept[key] = LinearBounds(graph, norm, box)
        found: LinearBounds = graph.kept[key]
        return found

    @property
    def affine(self) -> set[int]:
        """The operations that are affine functions of the input."""
        return self.reach.affine

    def patches(self, index: int) -> Patches | None:
        """The bounds of what a neuron of this picture sees, where that is less than half of everything."""
        if index not in self._patches:
            found = patch_network(self.graph, index)
            self._patches[index] = None
            if found is not None:
                local = LinearBounds(found.graph, self.norm, self.box, lengths=False)
                local.rounding = self.rounding
                if local.work[local.graph.output] <= 0.5 * self.work[index]:
                    self._patches[index] = found, local
        return self._patches[index]

    def layer_work(self, index: int) -> float:
        """Multiplications that rows of both signs of all entries of a result cost, about."""
        patches = self.patches(index)
        each = self.work[index] if patches is None else patches[1].work[patches[1].graph.output]
        return 2 * math.prod(self.graph.operations[index].shape) * each

    def cost(self, device: torch.device) -> float:
        """Multiplications for all limits of one sample, about."""
        each = [min(worthwhile(device), self.layer_work(at)) for at in self.wanted - self.affine]
        return sum(each, 0.0)

    def ball(
        self,
        x: Tensor,
        eps: Tensor,
        *,
        who: Tensor | None = None,
        known: dict[int, tuple[Tensor, Tensor]] | None = None,
    ) -> BallBounds:
        """Limits, sizes and relaxations over the balls of radius ε_i around x_i, operation after operation.

        Of several networks, ``who`` (B,) says which one each sample is about. With limits ``known`` of some results,
        what is found holds where those do: on a part of the ball.
        """
        shape = self.graph.operations[0].shape
        batch = MemberBatch.of(who) if who is not None and self.graph.members else None
        ball = BallBounds(x.double().reshape(len(x), *shape), eps.double(), batch)
        ball.values = dict(enumerate(self.graph.values(ball.x, batch)))
        for index, operation in enumerate(self.graph.operations):
            if isinstance(operation, InputValue):
                spread = ball.eps.reshape(-1, *[1] * len(shape))
                low, high = ball.x - spread, ball.x + spread
                if self.box is not None:
                    # x itself stays within, also where its own rounding has put it beside the box
                    low, high = (
                        torch.minimum(low.clamp(min=self.box[0]), ball.x),
                        torch.maximum(high.clamp(max=self.box[1]), ball.x),
                    )
                ball.sizes[index] = torch.maximum(low.abs(), high.abs())
            else:
                given = [ball.limits[at] for at in operation.inputs]
                sizes = [ball.sizes[at] for at in operation.inputs]
                if not isinstance(operation, AffineMap):
                    ball.relaxations[index] = relaxed(operation, given)
                low, high, ball.sizes[index] = interval_through(operation, given, sizes, self.rounding, batch)
                if index in self.wanted:
                    low, high = self._tightened(index, ball, low, high)
            if known is not None and index in known:
                low, high = torch.maximum(low, known[index][0]), torch.minimum(high, known[index][1])
            ball.limits[index] = low, high
            if self.lengths is not None:
                ball.lengths[index] = self.lengths.length(index, ball)
        return ball

    def rows_met(self, ball: BallBounds, rows: Tensor, at: int | None = None) -> dict[int, Tensor]:
        """The rows at every operation on the way of rows at the scores, or at another operation, to the input."""
        met: dict[int, Tensor] = {}
        output = self.graph.output if at is None else at
        carried_rows(self.graph, rows, output, 0, ball, met, sized=False)
        return met

    def _tightened(self, index: int, ball: BallBounds, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """The limits of one operation's result by backward bounds, where intervals leave something open."""
        value = ball.values[index]
        spreads = [] if self.lengths is None else [self.lengths.spread(index, ball)]
        straight = index in self.affine and self.box is None
        if straight:
            spreads.append(ball.eps.reshape(-1, *[1] * (value.ndim - 1)) * self.reach.of(index, ball))
        for spread in spreads:
            if spread is not None:
                spread = spread + self.rounding * (spread + ball.sizes[index])
                low, high = torch.maximum(low, value - spread), torch.minimum(high, value + spread)
        if straight or self.layer_work(index) > worthwhile(low.device):
            return low, high
        return self.narrowed(index, (low, high), partial(self._entry_limits, index, ball))

    def narrowed(
        self, index: int, limits: tuple[Tensor, Tensor], found: EntryLimits
    ) -> tuple[Tensor, Tensor]:
        """The limits of one operation's result, narrower where they matter.

        They do but where a piecewise-linear activation stays on one piece: ``found`` is asked about samples (P,) and
        entries (P,) of those, and of no others, whoever else is in the batch.
        """
        samples, entries = self._open(index, *limits).flatten(1).nonzero(as_tuple=True)
        if len(samples) == 0:
            return limits
        lower, upper = found(samples, entries)
        low, high = (side.flatten(1).clone() for side in limits)
        low[samples, entries] = torch.maximum(low[samples, entries], lower)
        high[samples, entries] = torch.minimum(high[samples, entries], upper)
        return low.reshape(limits[0].shape), high.reshape(limits[0].shape)

    def _open(self, index: int, low: Tensor, high: Tensor) -> Tensor:
        """Which entries of one operation's result are not on one straight piece, nor known already."""
        known = low == high
        users = [op for op in self.graph.operations if index in op.inputs and not isinstance(op, AffineMap)]
        curves = [op.curve for op in users if isinstance(op, CurveOf) and op.curve.straight]
        if len(curves) < len(users):
            return ~known
        return ~(known | torch.stack([settled(curve, low, high) for curve in curves]).all(0))

    def _entry_limits(
        self, index: int, ball: BallBounds, samples: Tensor, entries: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Limits (P,) of these entries of one operation's result in these samples; rows are the same for all."""
        patches, room = self.patches(index), row_entries(entries.device) // (2 * len(ball.eps))
        some, place = torch.unique(entries, return_inverse=True)
        if patches is None:
            shape, size = self.graph.operations[index].shape, room // self.widest
            sides = limits_of_entries(some, shape, size, lambda rows: self.backward(ball, rows, index))
        else:
            patch, local = patches
            output, size = local.graph.output, room // (local.graph.classes * local.widest)
            sides = limits_on_patches(
                patch, ball, some, size, lambda own, rows, _: local.backward(own, rows, output)
            )
        return sides[0][samples, place], sides[1][samples, place]

    def backward(self, ball: BallBounds, rows: Tensor, at: int, *, proof: bool = True) -> LowerBounds:
        """Lower bounds (B, K) of rows·value over the ball, for rows (B or 1, K, *S).

        Without ``proof`` rounding is left in, which costs less: for a search that ends in a proof.
        """
        back, constant, sizes = carried_rows(self.graph, rows, at, 0, ball, sized=proof)
        flat, x, rounding = back.flatten(2), ball.x.flatten(1), self.rounding if proof else 0.0
        step = smallest_step(flat, x, ball.eps, self.norm, self.box)
        lower = dot_rows(flat, x) + constant + step
        if proof:
            lower = lower - rounding * (sizes + step.abs())
            lower = torch.where(lower < math.inf, lower, -math.inf)  # what is not finite proves nothing
        return LowerBounds(lower, flat, step, rounding)


def _work_before(graph: NetworkGraph) -> list[float]:
    """Multiplications that one row costs on its way from each operation to the input, about."""
    own = []
    for operation in graph.operations:
        entries = float(math.prod(operation.shape))
        if isinstance(operation, AffineMap) and operation.matrix is not None:
            entries *= operation.matrix.shape[-2]
        if isinstance(operation, AffineMap) and operation.windows is not None:
            entries *= math.prod(operation.windows.size) * operation.input_shapes[0][1]
        own.append(entries)
    return [sum(own[: index + 1]) for index in range(len(own))]
