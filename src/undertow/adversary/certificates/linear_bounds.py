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
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.ball_lengths import BallLengths
from undertow.adversary.certificates.ball_minimum import Box, smallest_step
from undertow.adversary.certificates.network_graph import NetworkGraph
from undertow.adversary.certificates.node_bounds import (
    backward_through,
    dot_rows,
    interval_through,
    relaxed,
    settled,
)
from undertow.adversary.certificates.operations import AffineMap, CurveOf, InputValue
from undertow.adversary.certificates.patch_balls import patch_ball, patch_masks
from undertow.adversary.certificates.patch_networks import PatchNetwork, patch_network
from undertow.adversary.certificates.picture_windows import Places
from undertow.adversary.certificates.row_budget import in_parts, row_entries, worthwhile
from undertow.adversary.geometry import dual_lengths

__all__ = ["LinearBounds", "LowerBounds", "Patches", "affine_rows", "both_signs", "limits_on_patches"]


@dataclass(frozen=True, eq=False)
class LowerBounds:
    """rows·value ≥ A·x' + c ≥ ``lower`` (B, K) on the ball, A the ``rows`` (B, K, d), A·δ ≥ ``step`` (B, K)."""

    lower: Tensor
    rows: Tensor
    step: Tensor
    rounding: float

    def detached(self) -> LowerBounds:
        """The same numbers, without what they depend on."""
        return LowerBounds(self.lower.detach(), self.rows.detach(), self.step.detach(), self.rounding)

    def radii(self, norm: float) -> Tensor:
        """(A·x + c)/‖A‖_dual (B, K): rows·value > 0 at every point of the ball that is nearer than that.

        Rounding of A·x + c has been taken off, that of the division is here. ∞ or −∞ where A is zero.
        """
        length = dual_lengths(self.rows, norm)
        level = self.lower - self.step
        safe = 1 - 4 * self.rounding
        found = torch.where(length > 0, level / length.clamp(min=1e-300) * safe, level.sign() * math.inf)
        return torch.nan_to_num(found, nan=-math.inf, posinf=math.inf, neginf=-math.inf)


Patches = tuple[PatchNetwork, "LinearBounds"]


class LinearBounds:
    """The bounds of one network in one norm; what does not depend on the samples is computed once.

    In L2 limits are also those that the lengths of `ball_lengths` give; without ``lengths`` they are CROWN's alone.
    """

    def __init__(self, graph: NetworkGraph, norm: float, box: Box = None, *, lengths: bool = True) -> None:
        self.graph, self.norm, self.box = graph, norm, box
        widest = max(math.prod(operation.shape) for operation in graph.operations)
        self.widest = widest
        # twice what sums of so many terms, a few operations on each and a sum over the operations can do
        self.rounding = (widest + len(graph.operations) + 32) * torch.finfo(torch.float64).eps
        self.affine = self._affine_part()
        self._reach: dict[int, Tensor] = {}
        self._patches: dict[int, Patches | None] = {}
        self.work = _work_before(graph)
        self.lengths = BallLengths(graph) if norm == 2 and lengths else None
        self.wanted = {
            index
            for operation in graph.operations
            if not isinstance(operation, InputValue | AffineMap)
            for index in operation.inputs
        }

    def _affine_part(self) -> set[int]:
        """The operations that are affine functions of the input."""
        found: set[int] = set()
        for index, operation in enumerate(self.graph.operations):
            if isinstance(operation, InputValue | AffineMap) and found.issuperset(operation.inputs):
                found.add(index)
        return found

    def patches(self, index: int) -> Patches | None:
        """The bounds of what a neuron of this convolution sees, where that is less than half of everything."""
        if index not in self._patches:
            found = patch_network(self.graph, index)
            local = None if found is None else LinearBounds(found.graph, self.norm, self.box, lengths=False)
            if local is not None:
                local.rounding = self.rounding
            much = local is None or local.work[local.graph.output] > 0.5 * self.work[index]
            self._patches[index] = None if much or local is None or found is None else (found, local)
        return self._patches[index]

    def row_work(self, index: int) -> float:
        """Multiplications that the row of one entry of an operation's result costs, about."""
        patches = self.patches(index)
        return self.work[index] if patches is None else patches[1].work[patches[1].graph.output]

    def cost(self, device: torch.device) -> float:
        """Multiplications for all limits of one sample, about."""
        operations = self.graph.operations
        each = [
            min(worthwhile(device), 2 * math.prod(operations[at].shape) * self.row_work(at))
            for at in self.wanted
            if at not in self.affine
        ]
        return sum(each, 0.0)

    def ball(
        self, x: Tensor, eps: Tensor, *, known: dict[int, tuple[Tensor, Tensor]] | None = None
    ) -> BallBounds:
        """Limits, sizes and relaxations over the balls of radius ε_i around x_i, operation after operation.

        With limits ``known`` of some results, what is found holds where those do: on a part of the ball.
        """
        shape = self.graph.operations[0].shape
        x, eps = x.double().reshape(len(x), *shape), eps.double()
        ball = BallBounds(x, eps)
        values = self.graph.values(x)
        ball.values = dict(enumerate(values))
        for index, operation in enumerate(self.graph.operations):
            if isinstance(operation, InputValue):
                spread = eps.reshape(-1, *[1] * len(shape))
                low, high = x - spread, x + spread
                if self.box is not None:
                    low, high = low.clamp(min=self.box[0]), high.clamp(max=self.box[1])
                ball.sizes[index] = torch.maximum(low.abs(), high.abs())
            else:
                given = [ball.limits[at] for at in operation.inputs]
                sizes = [ball.sizes[at] for at in operation.inputs]
                if not isinstance(operation, AffineMap):
                    ball.relaxations[index] = relaxed(operation, given)
                low, high, ball.sizes[index] = interval_through(operation, given, sizes, self.rounding)
                if index in self.wanted:
                    low, high = self._tightened(index, ball, low, high, values[index])
            if known is not None and index in known:
                low, high = torch.maximum(low, known[index][0]), torch.minimum(high, known[index][1])
            ball.limits[index] = low, high
            if self.lengths is not None:
                length = self.lengths.length(index, eps, ball.lengths, ball.limits, values)
                ball.lengths[index] = self.lengths.within(length, values[index], (low, high))
        return ball

    def rows_met(self, ball: BallBounds, rows: Tensor, at: int | None = None) -> dict[int, Tensor]:
        """The rows at every operation on the way of rows at the scores, or at another operation, to the input."""
        met: dict[int, Tensor] = {}
        _carry(self.graph, rows, self.graph.output if at is None else at, 0, ball, met, sized=False)
        return met

    def _tightened(
        self, index: int, ball: BallBounds, low: Tensor, high: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The limits of one operation's result by backward bounds, where intervals leave something open."""
        spread = None if self.lengths is None else self.lengths.spread(index, ball.lengths)
        if spread is not None:
            spread = spread + self.rounding * (spread + ball.sizes[index])
            low, high = torch.maximum(low, value - spread), torch.minimum(high, value + spread)
        if index in self.affine and self.box is None:
            spread = ball.eps.reshape(-1, *[1] * (value.ndim - 1)) * self.reach(index, ball.x.device)
            spread = spread + self.rounding * (spread + ball.sizes[index])
            return torch.maximum(low, value - spread), torch.minimum(high, value + spread)
        some = self.open_entries(index, low, high)
        if len(some) == 0 or 2 * len(some) * self.row_work(index) > worthwhile(low.device):
            return low, high
        lower, upper = self.entry_limits(index, ball, some)
        flat, shape = (low.flatten(1).clone(), high.flatten(1).clone()), self.graph.operations[index].shape
        flat[0][:, some] = torch.maximum(flat[0][:, some], lower)
        flat[1][:, some] = torch.minimum(flat[1][:, some], upper)
        return flat[0].reshape(-1, *shape), flat[1].reshape(-1, *shape)

    def open_entries(self, index: int, low: Tensor, high: Tensor) -> Tensor:
        """The entries of one operation's result whose limits matter: not those on one straight piece in all samples."""
        users = [op for op in self.graph.operations if index in op.inputs and not isinstance(op, AffineMap)]
        open_ended = torch.ones_like(low[0], dtype=torch.bool)
        curves = [op.curve for op in users if isinstance(op, CurveOf) and op.curve.straight]
        if len(curves) == len(users):
            open_ended = ~torch.stack([settled(curve, low, high) for curve in curves]).all(0).all(0)
        return open_ended.flatten().nonzero().squeeze(1)

    def entry_limits(self, index: int, ball: BallBounds, some: Tensor) -> tuple[Tensor, Tensor]:
        """Lower and upper limits (B, n) of these entries of one operation's result."""
        patches = self.patches(index)
        if patches is not None:
            return limits_on_patches(
                patches,
                ball,
                some,
                lambda own, rows, _: patches[1].backward(own, rows, patches[1].graph.output),
            )
        shape = self.graph.operations[index].shape

        def limits(part: Tensor) -> Tensor:
            rows = both_signs(part, math.prod(shape)).reshape(1, 2 * len(part), *shape)
            return self.backward(ball, rows, index).lower.unflatten(1, (2, len(part)))

        size = row_entries(some.device) // (2 * self.widest * len(ball.eps))
        found = torch.cat(in_parts(some, size, limits), 2)
        return found[:, 0], -found[:, 1]

    def reach(self, index: int, device: torch.device) -> Tensor:
        """‖w_j‖_dual of an affine function of the input: the same for every sample, so computed once."""
        if index not in self._reach:
            shape, patches = self.graph.operations[index].shape, self.patches(index)
            entries, norms = math.prod(shape), []
            if patches is not None:
                self._reach[index] = _reach_of_patches(patches, self.norm, device).reshape(shape)
                return self._reach[index]
            everyone = torch.arange(entries, device=device)
            for some in torch.split(everyone, max(1, row_entries(device) // self.widest)):
                rows = torch.zeros(len(some), entries, dtype=torch.float64, device=device)
                rows[everyone[: len(some)], some] = 1.0
                back, _, _ = _carry(self.graph, rows.reshape(1, len(some), *shape), index, 0, None)
                norms.append(dual_lengths(back[0].flatten(1), self.norm))
            self._reach[index] = torch.cat(norms).reshape(shape)
        return self._reach[index]

    def backward(self, ball: BallBounds, rows: Tensor, at: int) -> LowerBounds:
        """Lower bounds (B, K) of rows·value over the ball, for rows (B or 1, K, *S)."""
        back, constant, sizes = _carry(self.graph, rows, at, 0, ball)
        flat, x = back.flatten(2), ball.x.flatten(1)
        step = smallest_step(flat, x, ball.eps, self.norm, self.box)
        lower = dot_rows(flat, x) + constant + step - self.rounding * (sizes + step.abs())
        lower = torch.nan_to_num(lower, nan=-math.inf, posinf=math.inf, neginf=-math.inf)
        return LowerBounds(lower, flat, step, self.rounding)

    def without_rounding(self, ball: BallBounds, rows: Tensor, at: int) -> Tensor:
        """The same bounds (B, K) with rounding left in: no proof, for a search that ends in one."""
        back, constant, _ = _carry(self.graph, rows, at, 0, ball, sized=False)
        flat, x = back.flatten(2), ball.x.flatten(1)
        return dot_rows(flat, x) + constant + smallest_step(flat, x, ball.eps, self.norm, self.box)


def limits_on_patches(
    patches: Patches, ball: BallBounds, some: Tensor, bound: Callable[[BallBounds, Tensor, Places], LowerBounds]
) -> tuple[Tensor, Tensor]:
    """Limits (B, n) of entries of a convolution, from bounds of all its channels at the places where one of them is.

    ``bound`` is given the balls (B·P) of patches, the rows (1, 2·channels, …) of both signs, and the places.
    """
    patch, local = patches
    channels, samples, (height, width) = local.graph.classes, len(ball.eps), patch.places
    rows = both_signs(torch.arange(channels, device=some.device), channels)
    rows = rows.reshape(1, 2 * channels, *local.graph.operations[local.graph.output].shape)
    found = ball.eps.new_zeros(samples, 2, channels, height * width)

    def write(part: Tensor) -> None:
        places = part // width, part % width
        lower = bound(patch_ball(patch, ball, places), rows, places).lower
        found[..., part] = lower.reshape(samples, len(part), 2, channels).permute(0, 2, 3, 1)

    everywhere = torch.unique(some % (height * width))
    in_parts(everywhere, row_entries(some.device) // (2 * channels * local.widest * samples), write)
    flat = found.flatten(2)[..., some]
    return flat[:, 0], -flat[:, 1]


def both_signs(some: Tensor, entries: int) -> Tensor:
    """Rows e_j, then −e_j, of these entries: (2n, entries)."""
    each = torch.arange(len(some), device=some.device)
    rows = torch.zeros(2, len(some), entries, dtype=torch.float64, device=some.device)
    rows[0, each, some], rows[1, each, some] = 1.0, -1.0
    return rows.flatten(0, 1)


def _reach_of_patches(patches: Patches, norm: float, device: torch.device) -> Tensor:
    """‖w_j‖_dual of every neuron of a convolution of the input, (channels, places)."""
    patch, local = patches
    channels, (height, width) = local.graph.classes, patch.places
    rows = torch.eye(channels, dtype=torch.float64, device=device).reshape(1, channels, 1, channels, 1, 1)
    everywhere, found = torch.arange(height * width, device=device), []
    for part in torch.split(everywhere, max(1, row_entries(device) // (channels * local.widest))):
        ball = patch_masks(patch, (part // width, part % width), rows)
        back, _, _ = _carry(local.graph, rows, local.graph.output, 0, ball, sized=False)
        found.append(dual_lengths(back.flatten(2), norm).expand(len(part), channels))
    return torch.cat(found).T


def _work_before(graph: NetworkGraph) -> list[float]:
    """Multiplications that one row costs on its way from each operation to the input, about."""
    own = []
    for operation in graph.operations:
        entries = float(math.prod(operation.shape))
        if isinstance(operation, AffineMap) and operation.matrix is not None:
            entries *= operation.matrix.shape[0]
        if isinstance(operation, AffineMap) and operation.kernel is not None:
            entries *= operation.kernel[0].numel()
        own.append(entries)
    return [sum(own[: index + 1]) for index in range(len(own))]


def affine_rows(graph: NetworkGraph, rows: Tensor, at: int, stop: int) -> tuple[Tensor, Tensor]:
    """rows·value of one operation as rows (K, *S)·value of another plus a constant (K,), through affine maps alone."""
    back, constant, _ = _carry(graph, rows.unsqueeze(0), at, stop, None)
    nothing = rows.new_zeros(len(rows))
    return back[0], constant[0] if isinstance(constant, Tensor) else nothing + constant


def _carry(
    graph: NetworkGraph,
    rows: Tensor,
    at: int,
    stop: int,
    ball: BallBounds | None,
    met: dict[int, Tensor] | None = None,
    *,
    sized: bool = True,
) -> tuple[Tensor, Tensor | float, Tensor | float]:
    """Rows at the operation ``stop``, the constant, and (``sized``) what the terms on the way can add up to."""
    pending: dict[int, Tensor] = {at: rows}
    constant: Tensor | float = 0.0
    sizes: Tensor | float = 0.0
    sized = sized and ball is not None
    for index in range(at, stop, -1):
        if index not in pending:
            continue
        current, operation = pending.pop(index), graph.operations[index]
        if met is not None:
            met[index] = current
        if sized and ball is not None and not (isinstance(operation, AffineMap) and operation.rearranges):
            sizes = sizes + dot_rows(current.flatten(2).abs(), ball.sizes[index].flatten(1))
        relaxation = None if ball is None else ball.relaxations.get(index)
        parts, shift, size = backward_through(operation, current, relaxation, sized=sized)
        constant, sizes = constant + shift, sizes + size
        for source, part in zip(operation.inputs, parts, strict=True):
            part = part.reshape(*part.shape[:2], *graph.operations[source].shape)
            pending[source] = pending[source] + part if source in pending else part
    nothing = rows.new_zeros(*rows.shape[:2], *graph.operations[stop].shape)
    back = pending.get(stop, nothing)
    if sized and ball is not None:
        sizes = sizes + dot_rows(back.flatten(2).abs(), ball.sizes[stop].flatten(1))
    return back, constant, sizes
